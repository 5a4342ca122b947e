#include "jpeg_crop.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "faults.hpp"
#include "jpeg_tiles.hpp"
#include "orientation.hpp"

namespace bushel {

namespace {

std::string size_text(std::int64_t width, std::int64_t height) {
    return std::to_string(width) + "x" + std::to_string(height);
}

std::int64_t rounded_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

// Every 8x8 block costs at least a bit, however it is coded.
std::int64_t fewest_bytes(const JpegHeader &header) {
    std::int64_t blocks = 0;
    for (int i = 0; i < header.components; ++i) {
        const JpegComponent &component = header.component[i];
        blocks += rounded_up(std::int64_t{header.width} * component.across, 8 * header.most_across()) *
                  rounded_up(std::int64_t{header.height} * component.down, 8 * header.most_down());
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
    if (orientation.turned) box = {box.top, box.left, box.bottom, box.right};
    if (orientation.across)
        std::tie(box.left, box.right) = std::pair(header.width - box.right, header.width - box.left);
    if (orientation.down)
        std::tie(box.top, box.bottom) = std::pair(header.height - box.bottom, header.height - box.top);
    return box;
}

// The pixels of a scaled image that a box of the image itself touches, and the box as an interval of them.
Axis scaled_axis(int begin, int end, int scale) {
    Axis axis;
    const int low = begin / scale;
    axis.available = static_cast<int>(rounded_up(end, scale)) - low;
    axis.begin = static_cast<double>(begin) / scale - low;
    axis.end = static_cast<double>(end) / scale - low;
    return axis;
}

// A region in pixels of the scale, by libjpeg, from a splice where the image is tiled.
Pixels decode_by_libjpeg(JpegDecoder &decoder, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                     const Region &region, int scale, int channels, bool tolerant) {
    thread_local std::vector<std::uint8_t> spliced;
    const Region wanted{region.left * scale, region.top * scale, std::min(region.right * scale, header.width),
                        std::min(region.bottom * scale, header.height)};
    const SegmentWindow window = find_window(header, wanted);
    const std::vector<std::size_t> begins =
        window.is_empty() ? std::vector<std::size_t>() : find_segments(data, size, header);
    if (begins.empty()) {
        decoder.begin(data, size, channels, scale, tolerant);
        return decoder.read(region);
    }
    const Region shown = splice(data, header, window, begins.data(), spliced);
    const int left = shown.left / scale, top = shown.top / scale;  // MCUs have multiples of 8 pixels
    decoder.begin(spliced.data(), spliced.size(), channels, scale, tolerant);
    return decoder.read({region.left - left, region.top - top, region.right - left, region.bottom - top});
}

Pixels decode_region(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                     const Region &region, int scale, int channels, const JpegOptions &options) {
    const std::size_t stride = static_cast<std::size_t>(region.width()) * static_cast<std::size_t>(channels);
    std::uint8_t *out = decoders.pixels.bytes(stride * static_cast<std::size_t>(region.height()));
    if (!options.libjpeg &&
        decoders.baseline.read(data, size, header, region, scale, channels, out, stride)) {
        return {out, static_cast<std::ptrdiff_t>(stride), region.width(), region.height(), channels};
    }
    return decode_by_libjpeg(decoders.any, data, size, header, region, scale, channels, options.tolerant);
}

void mirror(Axis &axis) {
    std::tie(axis.begin, axis.end) = std::pair(axis.available - axis.end, axis.available - axis.begin);
}

void set_output(Axis &across, Axis &down, const Geometry &geometry, const Slot &slot) {
    across.size = geometry.width, across.first = geometry.left, across.count = slot.width;
    across.flipped = geometry.flip_across;
    down.size = geometry.height, down.first = geometry.top, down.count = slot.height;
    down.flipped = geometry.flip_down;
}

Pixels part(const Pixels &pixels, const Weights &across, const Weights &down) {
    return {pixels.data + down.low() * pixels.stride + static_cast<std::ptrdiff_t>(across.low()) * pixels.channels,
            pixels.stride, across.high() - across.low(), down.high() - down.low(), pixels.channels};
}

}  // namespace

JpegHeader check_jpeg(const std::uint8_t *data, std::size_t size, const JpegOptions &options) {
    const JpegHeader header = read_jpeg_header(data, size);
    if (header.components != 1 && header.components != 3 && header.components != 4) {
        throw JpegFault("it has " + std::to_string(header.components) + " components: 1, 3 and 4 are supported");
    }
    if (std::int64_t{header.width} * header.height > options.most_pixels) {
        throw JpegFault("it has " + size_text(header.width, header.height) + " pixels, more than the " +
                        std::to_string(options.most_pixels) + " allowed");
    }
    if (!options.tolerant && !header.is_arithmetic() && static_cast<std::int64_t>(size) < fewest_bytes(header)) {
        throw JpegFault("its " + std::to_string(size) + " bytes are too few for " +
                        size_text(header.width, header.height) + " pixels");
    }
    return header;
}

std::string geometry_problem(const Geometry &geometry, int width, int height, const Slot &slot) {
    constexpr int longest = 1 << 24;
    const Region &box = geometry.box;
    if (box.left < 0 || box.top < 0 || box.right > width || box.bottom > height || box.left >= box.right ||
        box.top >= box.bottom) {
        return "the box from (" + std::to_string(box.left) + ", " + std::to_string(box.top) + ") to (" +
               std::to_string(box.right) + ", " + std::to_string(box.bottom) + ") is not inside the image, which is " +
               size_text(width, height);
    }
    const bool fits = geometry.width >= 1 && geometry.height >= 1 && geometry.width <= longest &&
                      geometry.height <= longest && geometry.left >= 0 && geometry.top >= 0 &&
                      slot.width <= geometry.width - geometry.left && slot.height <= geometry.height - geometry.top;
    if (!fits) {
        return "a slot of " + size_text(slot.width, slot.height) + " at (" + std::to_string(geometry.left) + ", " +
               std::to_string(geometry.top) + ") is not inside the resized box, which is " +
               size_text(geometry.width, geometry.height);
    }
    return "";
}

void decode_all(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                int channels, const JpegOptions &options, std::uint8_t *out) {
    const std::size_t stride = static_cast<std::size_t>(header.width) * static_cast<std::size_t>(channels);
    const Region all{0, 0, header.width, header.height};
    // GulpIO2's pixels are those of libjpeg's fast inverse DCT.
    if (!options.libjpeg && !options.fast &&
        decoders.baseline.read(data, size, header, all, 1, channels, out, stride)) {
        return;
    }
    decoders.any.begin(data, size, channels, 1, options.tolerant, options.fast);
    decoders.any.read_all(out);
}

void decode_crop(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const Geometry &geometry,
                 const JpegOptions &options, const Slot &slot) {
    const JpegHeader header = check_jpeg(data, size, options);
    if (slot.channels == 1 && header.components != 1) throw JpegFault("it has colours, the array one channel");
    const Orientation orientation(options.orient ? header.orientation : 1);
    const std::string problem = geometry_problem(geometry, orientation.turned ? header.height : header.width,
                                                 orientation.turned ? header.width : header.height, slot);
    if (!problem.empty()) throw JpegFault(problem);

    const int scale = choose_scale(geometry, options.reducing_gap);
    const Region box = stored_box(geometry.box, orientation, header);
    Axis across = scaled_axis(box.left, box.right, scale);
    Axis down = scaled_axis(box.top, box.bottom, scale);
    Region region{box.left / scale, box.top / scale, box.left / scale + across.available,
                  box.top / scale + down.available};
    if (orientation.across) mirror(across);
    if (orientation.down) mirror(down);
    if (orientation.turned) std::swap(across, down);
    set_output(across, down, geometry, slot);
    const Weights columns(across), rows(down);
    if (orientation.is_upright()) {
        region = {region.left + columns.low(), region.top + rows.low(), region.left + columns.high(),
                  region.top + rows.high()};
    }
    const Pixels stored = decode_region(decoders, data, size, header, region, scale, slot.channels, options);
    if (orientation.is_upright()) return resize(stored, columns, rows, slot);

    thread_local Buffer upright;
    const std::size_t bytes = static_cast<std::size_t>(stored.width) * static_cast<std::size_t>(stored.height) *
                              static_cast<std::size_t>(stored.channels);
    resize(part(make_upright(stored, orientation, upright.bytes(bytes)), columns, rows), columns, rows, slot);
}

void resize_crop(const Pixels &pixels, const Geometry &geometry, const Slot &slot) {
    Axis across = scaled_axis(geometry.box.left, geometry.box.right, 1);
    Axis down = scaled_axis(geometry.box.top, geometry.box.bottom, 1);
    set_output(across, down, geometry, slot);
    const Weights columns(across), rows(down);
    const Pixels box{pixels.data + geometry.box.top * pixels.stride +
                         static_cast<std::ptrdiff_t>(geometry.box.left) * pixels.channels,
                     pixels.stride, across.available, down.available, pixels.channels};
    resize(part(box, columns, rows), columns, rows, slot);
}

}  // namespace bushel
