#include "jpeg_transcode.hpp"

#include <cstring>

#include "jpeg_crop.hpp"
#include "jpeg_errors.hpp"
#include "jpeg_header.hpp"
#include "jpeg_target.hpp"
#include "jpeg_tiles.hpp"

namespace bushel {

namespace {

class Source {
public:
    Source(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {
        image.err = errors.manager();
        errors.guard([this] { jpeg_create_decompress(&image); }, [] {});
        image.progress = &limit_;
    }
    ~Source() { jpeg_destroy_decompress(&image); }
    Source(const Source &) = delete;
    Source &operator=(const Source &) = delete;

    // To be called in a guarded step.
    jvirt_barray_ptr *read(bool metadata) {
        jpeg_mem_src(&image, data_, static_cast<unsigned long>(size_));
        for (int marker = JPEG_APP0; metadata && marker <= JPEG_APP0 + 15; ++marker) {
            jpeg_save_markers(&image, marker, 0xFFFF);
        }
        if (metadata) jpeg_save_markers(&image, JPEG_COM, 0xFFFF);
        jpeg_read_header(&image, TRUE);
        return jpeg_read_coefficients(&image);
    }

    JpegErrors errors;
    jpeg_decompress_struct image{};

private:
    JpegScanLimit limit_{errors};
    const std::uint8_t *data_;
    std::size_t size_;
};

// What libjpeg writes of itself where the image needs it.
bool is_written_anyway(const jpeg_marker_struct &marker) {
    const auto begins = [&marker](const char *name) {
        return marker.data_length >= 5 && std::memcmp(marker.data, name, 5) == 0;
    };
    return (marker.marker == JPEG_APP0 && begins("JFIF")) || (marker.marker == JPEG_APP0 + 14 && begins("Adobe"));
}

void write_metadata(jpeg_compress_struct &target, const jpeg_decompress_struct &source) {
    for (const jpeg_marker_struct *marker = source.marker_list; marker; marker = marker->next) {
        if (is_written_anyway(*marker)) continue;
        jpeg_write_marker(&target, marker->marker, marker->data, marker->data_length);
    }
}

// The smallest Exif segment that holds an orientation.
void write_orientation(jpeg_compress_struct &target, int orientation) {
    unsigned char segment[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0,  // little-endian TIFF
                               8,    0,   0,   0,                           // its first directory is at 8
                               1,    0,                                     // with one entry:
                               0x12, 1,   3,   0,   1, 0, 0,   0,   0,  0,  // the orientation, a short
                               0,    0,   0,   0,   0, 0};                  // no other directory
    segment[24] = static_cast<unsigned char>(orientation);
    jpeg_write_marker(&target, JPEG_APP0 + 1, segment, sizeof segment);
}

JpegHeader checked(const std::uint8_t *data, std::size_t size, std::int64_t most_pixels) {
    JpegOptions options;
    options.most_pixels = most_pixels;
    return check_jpeg(data, size, options);
}

}  // namespace

std::vector<std::uint8_t> tile_jpeg(const std::uint8_t *data, std::size_t size, bool metadata,
                                    std::int64_t most_pixels) {
    const JpegHeader header = checked(data, size, most_pixels);
    const int interval = choose_interval(JpegGrid(header));
    Source source(data, size);
    JpegTarget target(source.errors);
    source.errors.guard(
        [&source, &target, &header, metadata, interval] {
            jvirt_barray_ptr *coefficients = source.read(metadata);
            jpeg_copy_critical_parameters(&source.image, &target.image);
            target.image.optimize_coding = TRUE;
            target.image.restart_interval = static_cast<unsigned>(interval);
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

bool is_tiled_jpeg(const std::uint8_t *data, std::size_t size) {
    const JpegHeader header = read_jpeg_header(data, size);
    const JpegGrid grid(header);
    return grid.per_segment == choose_interval(grid) && !find_segments(data, size, header).empty();
}

std::vector<JpegCoefficients> read_coefficients(const std::uint8_t *data, std::size_t size, std::int64_t most_pixels) {
    checked(data, size, most_pixels);
    Source source(data, size);
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
