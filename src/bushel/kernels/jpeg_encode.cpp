#include "jpeg_encode.hpp"

#include <cstddef>

#include "jpeg_target.hpp"

namespace bushel {

namespace {

void start(jpeg_compress_struct &image, const JpegEncoding &encoding) {
    image.in_color_space = image.input_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&image);
    jpeg_set_quality(&image, encoding.quality, TRUE);
    if (encoding.fast) image.dct_method = JDCT_IFAST;
    if (image.num_components == 3) {
        image.comp_info[0].h_samp_factor = encoding.across;
        image.comp_info[0].v_samp_factor = encoding.down;
    }
    jpeg_start_compress(&image, TRUE);
}

void write_rows(jpeg_compress_struct &image, const std::uint8_t *pixels, std::size_t stride) {
    constexpr unsigned at_once = 16;
    JSAMPROW rows[at_once];
    while (image.next_scanline < image.image_height) {
        unsigned count = 0;
        for (; count < at_once && image.next_scanline + count < image.image_height; ++count) {
            rows[count] = const_cast<JSAMPROW>(pixels + (image.next_scanline + count) * stride);
        }
        jpeg_write_scanlines(&image, rows, count);
    }
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t *pixels, int width, int height, int channels,
                                      const JpegEncoding &encoding) {
    JpegErrors errors;
    JpegTarget target(errors);
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

}  // namespace bushel
