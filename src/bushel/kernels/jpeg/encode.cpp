#include "jpeg/encode.hpp"

#include <cstddef>
#include <cstring>

#include "jpeg/crop.hpp"
#include "jpeg/header.hpp"
#include "jpeg/libjpeg.hpp"
#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

void start(jpeg_compress_struct &image, const JpegEncoding &encoding) {
    image.in_color_space = image.input_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&image);
    jpeg_set_quality(&image, encoding.quality, TRUE);
    if (encoding.fast) image.dct_method = JDCT_IFAST;
    if (image.num_components == 3) {
        image.comp_info[0].h_samp_factor = encoding.h_samp_factor;
        image.comp_info[0].v_samp_factor = encoding.v_samp_factor;
    }
    jpeg_start_compress(&image, TRUE);
}

void write_rows(jpeg_compress_struct &image, const std::uint8_t *pixels, std::size_t stride) {
    constexpr unsigned max_rows = 16;
    JSAMPROW rows[max_rows];
    while (image.next_scanline < image.image_height) {
        unsigned count = 0;
        for (; count < max_rows && image.next_scanline + count < image.image_height; ++count) {
            rows[count] = const_cast<JSAMPROW>(pixels + (image.next_scanline + count) * stride);
        }
        jpeg_write_scanlines(&image, rows, count);
    }
}

// A JPEG that is read as coefficients.
class JpegSource {
public:
    JpegSource(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {
        image.err = errors.manager();
        errors.guard([this] { jpeg_create_decompress(&image); }, [] {});
        image.progress = &limit_;
    }
    ~JpegSource() { jpeg_destroy_decompress(&image); }
    JpegSource(const JpegSource &) = delete;
    JpegSource &operator=(const JpegSource &) = delete;

    // Read the coefficients. Call it in a guarded step.
    jvirt_barray_ptr *read(bool metadata) {
        jpeg_mem_src(&image, data_, static_cast<unsigned long>(size_));
        for (int marker = JPEG_APP0; metadata && marker <= JPEG_APP0 + 15; ++marker) {
            jpeg_save_markers(&image, marker, 0xFFFF);
        }
        if (metadata) jpeg_save_markers(&image, JPEG_COM, 0xFFFF);
        jpeg_read_header(&image, TRUE);
        return jpeg_read_coefficients(&image);
    }

    LibjpegErrors errors;
    jpeg_decompress_struct image{};

private:
    ScanLimit limit_{errors};
    const std::uint8_t *data_;
    std::size_t size_;
};

// Whether libjpeg writes this segment by itself if the image needs it.
bool is_written_by_libjpeg(const jpeg_marker_struct &marker) {
    const auto starts_with = [&marker](const char *name) {
        return marker.data_length >= 5 && std::memcmp(marker.data, name, 5) == 0;
    };
    return (marker.marker == JPEG_APP0 && starts_with("JFIF")) ||
           (marker.marker == JPEG_APP0 + 14 && starts_with("Adobe"));
}

void write_metadata(jpeg_compress_struct &target, const jpeg_decompress_struct &source) {
    for (const jpeg_marker_struct *marker = source.marker_list; marker; marker = marker->next) {
        if (is_written_by_libjpeg(*marker)) continue;
        jpeg_write_marker(&target, marker->marker, marker->data, marker->data_length);
    }
}

// Write the smallest Exif segment that holds an orientation.
void write_orientation(jpeg_compress_struct &target, int orientation) {
    unsigned char segment[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0,  // little-endian TIFF
                               8,    0,   0,   0,                           // offset of the first directory: 8
                               1,    0,                                     // one entry:
                               0x12, 1,   3,   0,   1, 0, 0,   0,   0,  0,  // the orientation, a short
                               0,    0,   0,   0,   0, 0};                  // no further directory
    segment[24] = static_cast<unsigned char>(orientation);
    jpeg_write_marker(&target, JPEG_APP0 + 1, segment, sizeof segment);
}

JpegHeader check(const std::uint8_t *data, std::size_t size, std::int64_t max_pixels) {
    JpegOptions options;
    options.max_pixels = max_pixels;
    return check_jpeg(data, size, options);
}

// Write the coefficients of a JPEG again, in one scan.
std::vector<std::uint8_t> rewrite(const std::uint8_t *data, std::size_t size, const JpegHeader &header, bool metadata,
                                  int restart_interval) {
    JpegSource source(data, size);
    LibjpegTarget target(source.errors);
    source.errors.guard(
        [&source, &target, &header, metadata, restart_interval] {
            jvirt_barray_ptr *coefficients = source.read(metadata);
            jpeg_copy_critical_parameters(&source.image, &target.image);
            target.image.optimize_coding = TRUE;
            target.image.restart_interval = static_cast<unsigned>(restart_interval);
            jpeg_mem_dest(&target.image, &target.bytes, &target.length);
            jpeg_write_coefficients(&target.image, coefficients);
            if (metadata)
                write_metadata(target.image, source.image);
            else if (header.orientation != 1)
                write_orientation(target.image, header.orientation);
            jpeg_finish_compress(&target.image);
            jpeg_finish_decompress(&source.image);
        },
        [] {});
    return std::vector<std::uint8_t>(target.bytes, target.bytes + target.length);
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t *pixels, int width, int height, int channels,
                                      const JpegEncoding &encoding) {
    LibjpegErrors errors;
    LibjpegTarget target(errors);
    target.image.image_width = static_cast<JDIMENSION>(width);
    target.image.image_height = static_cast<JDIMENSION>(height);
    target.image.input_components = channels;
    errors.guard(
        [&target, &encoding, pixels, width, channels] {
            jpeg_mem_dest(&target.image, &target.bytes, &target.length);
            start(target.image, encoding);
            write_rows(target.image, pixels, static_cast<std::size_t>(width) * static_cast<std::size_t>(channels));
            jpeg_finish_compress(&target.image);
        },
        [] {});
    return std::vector<std::uint8_t>(target.bytes, target.bytes + target.length);
}

std::vector<std::uint8_t> tile_jpeg(const std::uint8_t *data, std::size_t size, bool metadata,
                                    std::int64_t max_pixels) {
    const JpegHeader header = check(data, size, max_pixels);
    return rewrite(data, size, header, metadata, choose_interval(JpegGrid(header)));
}

std::vector<std::uint8_t> baseline_jpeg(const std::uint8_t *data, std::size_t size, std::int64_t max_pixels) {
    const JpegHeader header = check(data, size, max_pixels);
    if (header.is_sequential()) return {};
    return rewrite(data, size, header, true, 0);
}

bool is_tiled_jpeg(const std::uint8_t *data, std::size_t size) {
    const JpegHeader header = read_jpeg_header(data, size);
    const JpegGrid grid(header);
    return grid.per_segment == choose_interval(grid) && !find_segments(data, size, header).empty();
}

std::vector<JpegCoefficients> read_coefficients(const std::uint8_t *data, std::size_t size, std::int64_t max_pixels) {
    check(data, size, max_pixels);
    JpegSource source(data, size);
    jvirt_barray_ptr *arrays = nullptr;
    source.errors.guard([&source, &arrays] { arrays = source.read(false); }, [] {});
    std::vector<JpegCoefficients> components(static_cast<std::size_t>(source.image.num_components));
    for (std::size_t i = 0; i < components.size(); ++i) {
        const jpeg_component_info &info = source.image.comp_info[i];
        JpegCoefficients &component = components[i];
        component.rows = info.height_in_blocks;
        component.columns = info.width_in_blocks;
        const std::size_t length = component.columns * DCTSIZE2;
        component.values.resize(component.rows * length);
        std::int16_t *out = component.values.data();
        source.errors.guard(
            [&source, &info, arrays, i, length, out] {
                const auto object = reinterpret_cast<j_common_ptr>(&source.image);
                for (JDIMENSION row = 0; row < info.height_in_blocks; ++row) {
                    JBLOCKARRAY blocks = source.image.mem->access_virt_barray(object, arrays[i], row, 1, FALSE);
                    std::memcpy(out + row * length, blocks[0][0], length * sizeof(std::int16_t));
                }
            },
            [] {});
    }
    return components;
}

}  // namespace bushel
