#include "jpeg/crop.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "common/exceptions.hpp"
#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

std::string size_text(std::int64_t width, std::int64_t height) {
    return std::to_string(width) + "x" + std::to_string(height);
}

// The fewest bytes that an image of this size can have: each 8x8 block takes a bit at least.
std::int64_t min_bytes(const JpegHeader &header) {
    std::int64_t blocks = 0;
    for (int i = 0; i < header.components; ++i) {
        const JpegComponent &component = header.component[i];
        blocks += divide_up(std::int64_t{header.width} * component.h_samp_factor, 8 * header.max_h_samp_factor()) *
                  divide_up(std::int64_t{header.height} * component.v_samp_factor, 8 * header.max_v_samp_factor());
    }
    return blocks / 8;
}

int choose_scale(const Geometry &geometry, double gap) {
    if (gap <= 0) return 1;
    int scale = 8;
    while (scale > 1 && (geometry.box.width() < gap * scale * geometry.width ||
                         geometry.box.height() < gap * scale * geometry.height)) {
        scale /= 2;
    }
    return scale;
}

Region stored_box(Region box, const Orientation &orientation, const JpegHeader &header) {
    if (orientation.transposed) box = {box.top, box.left, box.bottom, box.right};
    if (orientation.flip_x)
        std::tie(box.left, box.right) = std::pair(header.width - box.right, header.width - box.left);
    if (orientation.flip_y)
        std::tie(box.top, box.bottom) = std::pair(header.height - box.bottom, header.height - box.top);
    return box;
}

// Return the pixels of the scaled image that an interval of the full-size image touches, and the interval in them.
Axis scaled_axis(int begin, int end, int scale) {
    Axis axis;
    const int low = begin / scale;
    axis.available = divide_up(end, scale) - low;
    axis.begin = static_cast<double>(begin) / scale - low;
    axis.end = static_cast<double>(end) / scale - low;
    return axis;
}

// Decode a region, in pixels of the scale, with libjpeg; from a splice if the image is tiled.
Pixels decode_with_libjpeg(LibjpegDecoder &decoder, const std::uint8_t *data, std::size_t size,
                           const JpegHeader &header, const Region &region, int scale, int channels, bool tolerant) {
    thread_local std::vector<std::uint8_t> spliced;
    const Region pixels{region.left * scale, region.top * scale, std::min(region.right * scale, header.width),
                        std::min(region.bottom * scale, header.height)};
    const SegmentWindow window = find_window(header, pixels);
    const std::vector<std::size_t> segments =
        window.is_empty() ? std::vector<std::size_t>() : find_segments(data, size, header);
    if (segments.empty()) {
        decoder.begin(data, size, channels, scale, tolerant);
        return decoder.read(region);
    }
    const Region shown = splice(data, header, window, segments.data(), spliced);
    const int left = shown.left / scale, top = shown.top / scale;  // MCUs have multiples of 8 pixels
    decoder.begin(spliced.data(), spliced.size(), channels, scale, tolerant);
    return decoder.read({region.left - left, region.top - top, region.right - left, region.bottom - top});
}

// Decode with Bushel's decoders: from the states of the seek table, or from the start if that is not the image's. A
// table of an image that cannot be decoded from the start either is not to blame.
bool read_without_libjpeg(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                          const SeekTable &table, const Region &region, int scale, int channels, const ImageRows &out) {
    if (is_usual_progressive(header)) {
        if (!decoders.progressive) decoders.progressive = std::make_unique<ProgressiveDecoder>();
        return decoders.progressive->read(data, size, header, region, scale, channels, out);
    }
    BaselineDecoder &decoder = decoders.baseline;
    if (!table.is_empty() && decoder.read(data, size, header, table, region, scale, channels, out)) return true;
    const bool done = decoder.read(data, size, header, SeekTable(), region, scale, channels, out);
    decoders.refused_table = done && !table.is_empty();
    return done;
}

Pixels decode_region(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                     const SeekTable &table, const Region &region, int scale, int channels,
                     const JpegOptions &options) {
    const std::size_t stride = static_cast<std::size_t>(region.width()) * static_cast<std::size_t>(channels);
    std::uint8_t *out = decoders.pixels.bytes(stride * static_cast<std::size_t>(region.height()));
    const ImageRows rows(out, region.width(), region.height(), channels);
    if (!options.libjpeg && read_without_libjpeg(decoders, data, size, header, table, region, scale, channels, rows)) {
        return {out, static_cast<std::ptrdiff_t>(stride), region.width(), region.height(), channels};
    }
    return decode_with_libjpeg(decoders.libjpeg, data, size, header, region, scale, channels, options.tolerant);
}

void flip(Axis &axis) {
    std::tie(axis.begin, axis.end) = std::pair(axis.available - axis.end, axis.available - axis.begin);
}

void set_output(Axis &x, Axis &y, const Geometry &geometry, const OutputImage &out) {
    x.size = geometry.width, x.first = geometry.left, x.count = out.width, x.flipped = geometry.flip_x;
    y.size = geometry.height, y.first = geometry.top, y.count = out.height, y.flipped = geometry.flip_y;
}

Pixels needed_part(const Pixels &pixels, const Weights &columns, const Weights &rows) {
    return {pixels.data + rows.low() * pixels.stride + static_cast<std::ptrdiff_t>(columns.low()) * pixels.channels,
            pixels.stride, columns.high() - columns.low(), rows.high() - rows.low(), pixels.channels};
}

}  // namespace

JpegHeader check_jpeg(const std::uint8_t *data, std::size_t size, const JpegOptions &options) {
    const JpegHeader header = read_jpeg_header(data, size);
    if (header.components != 1 && header.components != 3 && header.components != 4) {
        throw JpegError("it has " + std::to_string(header.components) + " components: 1, 3 and 4 are supported");
    }
    if (std::int64_t{header.width} * header.height > options.max_pixels) {
        throw JpegError("it has " + size_text(header.width, header.height) + " pixels, more than the " +
                        std::to_string(options.max_pixels) + " allowed");
    }
    if (!options.tolerant && !header.is_arithmetic() && static_cast<std::int64_t>(size) < min_bytes(header)) {
        throw JpegError("its " + std::to_string(size) + " bytes are too few for " +
                        size_text(header.width, header.height) + " pixels");
    }
    return header;
}

std::string geometry_problem(const Geometry &geometry, int width, int height, const OutputImage &out) {
    constexpr int max_side = 1 << 24;
    const Region &box = geometry.box;
    if (box.left < 0 || box.top < 0 || box.right > width || box.bottom > height || box.left >= box.right ||
        box.top >= box.bottom) {
        return "the box from (" + std::to_string(box.left) + ", " + std::to_string(box.top) + ") to (" +
               std::to_string(box.right) + ", " + std::to_string(box.bottom) + ") is not inside the image, which is " +
               size_text(width, height);
    }
    const bool fits = geometry.width >= 1 && geometry.height >= 1 && geometry.width <= max_side &&
                      geometry.height <= max_side && geometry.left >= 0 && geometry.top >= 0 &&
                      out.width <= geometry.width - geometry.left && out.height <= geometry.height - geometry.top;
    if (!fits) {
        return "the output of " + size_text(out.width, out.height) + " pixels at (" + std::to_string(geometry.left) +
               ", " + std::to_string(geometry.top) + ") is not inside the resized box, which is " +
               size_text(geometry.width, geometry.height);
    }
    return "";
}

void decode_all(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                int channels, const JpegOptions &options, std::uint8_t *out, const SeekTable &table) {
    const Region all{0, 0, header.width, header.height};
    const Orientation orientation(options.orient ? header.orientation : 1);
    const ImageRows rows(out, header.width, header.height, channels, orientation, decoders.pixels);
    decoders.refused_table = false;
    // GulpIO2 decodes with libjpeg's fast inverse DCT.
    if (!options.libjpeg && !options.fast &&
        read_without_libjpeg(decoders, data, size, header, table, all, 1, channels, rows)) {
        return;
    }
    decoders.libjpeg.begin(data, size, channels, 1, options.tolerant, options.fast);
    std::uint8_t *const stored = rows.begin(0, header.height);
    decoders.libjpeg.read_all(stored);
    rows.finish(stored, 0, header.height);
}

void decode_crop(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const Geometry &geometry,
                 const JpegOptions &options, const OutputImage &out, const SeekTable &table) {
    decoders.refused_table = false;
    const JpegHeader header = check_jpeg(data, size, options);
    if (out.channels == 1 && header.components != 1) throw JpegError("it has colours, but the array has one channel");
    const Orientation orientation(options.orient ? header.orientation : 1);
    const std::string problem = geometry_problem(geometry, orientation.transposed ? header.height : header.width,
                                                 orientation.transposed ? header.width : header.height, out);
    if (!problem.empty()) throw JpegError(problem);

    const int scale = choose_scale(geometry, options.reducing_gap);
    const Region box = stored_box(geometry.box, orientation, header);
    Axis x = scaled_axis(box.left, box.right, scale), y = scaled_axis(box.top, box.bottom, scale);
    Region region{box.left / scale, box.top / scale, box.left / scale + x.available, box.top / scale + y.available};
    if (orientation.flip_x) flip(x);
    if (orientation.flip_y) flip(y);
    if (orientation.transposed) std::swap(x, y);
    set_output(x, y, geometry, out);
    const Weights columns(x), rows(y);
    if (orientation.is_upright()) {
        region = {region.left + columns.low(), region.top + rows.low(), region.left + columns.high(),
                  region.top + rows.high()};
    }
    // a whole image is decoded from its start as fast as with a table
    const bool is_whole = box.width() == header.width && box.height() == header.height;
    const Pixels stored = decode_region(decoders, data, size, header, is_whole ? SeekTable() : table, region, scale,
                                        out.channels, options);
    if (orientation.is_upright()) return resize(stored, columns, rows, out);

    thread_local Buffer upright;
    const std::size_t bytes = static_cast<std::size_t>(stored.width) * static_cast<std::size_t>(stored.height) *
                              static_cast<std::size_t>(stored.channels);
    resize(needed_part(make_upright(stored, orientation, upright.bytes(bytes)), columns, rows), columns, rows, out);
}

void resize_crop(const Pixels &pixels, const Geometry &geometry, const OutputImage &out) {
    Axis x = scaled_axis(geometry.box.left, geometry.box.right, 1);
    Axis y = scaled_axis(geometry.box.top, geometry.box.bottom, 1);
    set_output(x, y, geometry, out);
    const Weights columns(x), rows(y);
    const Pixels box{pixels.data + geometry.box.top * pixels.stride +
                         static_cast<std::ptrdiff_t>(geometry.box.left) * pixels.channels,
                     pixels.stride, x.available, y.available, pixels.channels};
    resize(needed_part(box, columns, rows), columns, rows, out);
}

}  // namespace bushel
