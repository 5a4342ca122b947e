#include "jpeg/libjpeg_decoder.hpp"

#include <algorithm>

#include "jpeg/colour.hpp"

namespace bushel {

template <typename Step>
void LibjpegDecoder::guarded(Step step) {
    errors_.guard(step, [this] { jpeg_abort_decompress(&image_); });
}

LibjpegDecoder::LibjpegDecoder() { image_.err = errors_.manager(); }

LibjpegDecoder::~LibjpegDecoder() { jpeg_destroy_decompress(&image_); }

void LibjpegDecoder::begin(const std::uint8_t *data, std::size_t size, int channels, int scale, bool tolerant,
                           bool fast) {
    errors_.tolerate_warnings(tolerant);
    channels_ = channels;
    guarded([=] {
        // A new object: libjpeg would decode a file that lacks tables with the tables of the previous image.
        jpeg_destroy_decompress(&image_);
        jpeg_create_decompress(&image_);
        image_.progress = &limit_;
        jpeg_mem_src(&image_, data, static_cast<unsigned long>(size));
        jpeg_read_header(&image_, TRUE);
        image_.out_color_space = image_.num_components == 4 ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        if (fast) {
            image_.dct_method = JDCT_IFAST;
            image_.do_fancy_upsampling = FALSE;
        }
        image_.scale_num = 1;
        image_.scale_denom = static_cast<unsigned>(scale);
        jpeg_calc_output_dimensions(&image_);
    });
}

// Whether a component has fewer columns than the output, so that pixels depend on their neighbours.
bool LibjpegDecoder::is_upsampled() const {
    for (int i = 0; i < image_.num_components; ++i) {
        const jpeg_component_info &component = image_.comp_info[i];
        if (component.h_samp_factor * block_width(component) != image_.max_h_samp_factor * block_width(image_))
            return true;
    }
    return false;
}

void LibjpegDecoder::read_rows(int first, int last, std::uint8_t *out, std::size_t stride) {
    if (first > 0) jpeg_skip_scanlines(&image_, static_cast<JDIMENSION>(first));
    const auto end = static_cast<JDIMENSION>(last);
    while (image_.output_scanline < end) {
        constexpr JDIMENSION max_rows = 8;
        JSAMPROW rows[max_rows];
        const JDIMENSION wanted = std::min(max_rows, end - image_.output_scanline);
        for (JDIMENSION i = 0; i < wanted; ++i) {
            rows[i] =
                out + static_cast<std::size_t>(image_.output_scanline - static_cast<JDIMENSION>(first) + i) * stride;
        }
        const JDIMENSION done = jpeg_read_scanlines(&image_, rows, wanted);
        if (image_.out_color_space == JCS_CMYK) {
            for (JDIMENSION i = 0; i < done; ++i) cmyk_to_rgb(rows[i], image_.output_width);
        }
    }
}

Pixels LibjpegDecoder::read(const Region &region) {
    // Whole MCUs are decoded. Upsampling is wrong at the edges of the decoded columns, so there is one more MCU on each
    // side.
    const int mcu = block_width(image_) * (image_.num_components > 1 ? image_.max_h_samp_factor : 1);
    const int margin = is_upsampled() ? mcu : 0;
    const int left = std::max(0, region.left / mcu * mcu - margin);
    const int right = std::min(width(), (region.right + mcu - 1) / mcu * mcu + margin);
    const std::size_t stride =
        static_cast<std::size_t>(right - left) * static_cast<std::size_t>(image_.num_components == 4 ? 4 : channels_);
    std::uint8_t *out = pixels_.bytes(stride * static_cast<std::size_t>(region.height()));
    guarded([=] {
        jpeg_start_decompress(&image_);
        JDIMENSION start = static_cast<JDIMENSION>(left), columns = static_cast<JDIMENSION>(right - left);
        if (columns < image_.output_width) jpeg_crop_scanline(&image_, &start, &columns);
        read_rows(region.top, region.bottom, out, stride);
        jpeg_abort_decompress(&image_);
    });
    return {out + (region.left - left) * channels_, static_cast<std::ptrdiff_t>(stride), region.width(),
            region.height(), channels_};
}

void LibjpegDecoder::read_all(std::uint8_t *out) {
    const std::size_t length = static_cast<std::size_t>(width()) * static_cast<std::size_t>(channels_);
    if (image_.num_components == 4) {  // rows are longer before the conversion to RGB than after it
        const Pixels pixels = read({0, 0, width(), height()});
        for (int row = 0; row < pixels.height; ++row) {
            std::copy_n(pixels.data + row * pixels.stride, length, out + static_cast<std::size_t>(row) * length);
        }
        return;
    }
    guarded([=] {
        jpeg_start_decompress(&image_);
        read_rows(0, height(), out, length);
        jpeg_abort_decompress(&image_);
    });
}

}  // namespace bushel
