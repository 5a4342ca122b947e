// libjpeg, one image after the other into the same memory: entropy decoding, inverse DCT and colour.
#pragma once
#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "jpeg_errors.hpp"
#include "region.hpp"
#include "resize.hpp"

namespace bushel {

class JpegDecoder {
public:
    JpegDecoder();
    ~JpegDecoder();
    JpegDecoder(const JpegDecoder &) = delete;
    JpegDecoder &operator=(const JpegDecoder &) = delete;

    // Begins an image, whose bytes must stay; it is decoded to so many channels (3 to 1: the luma) at 1/scale of
    // its size. Unless tolerant, whatever libjpeg warns of counts as an error. Fast trades accuracy of the inverse DCT
    // and of chroma upsampling for speed. All of these throw JpegFault.
    void begin(const std::uint8_t *data, std::size_t size, int channels, int scale, bool tolerant, bool fast = false);

    // The size at that scale.
    int width() const { return static_cast<int>(image_.output_width); }
    int height() const { return static_cast<int>(image_.output_height); }

    // Decodes a part of the image begun, in pixels of the scale; the same pixels as a decoding of all of it has. They
    // stay until the next call.
    Pixels read(const Region &region);

    // Decodes all of it into rows without gaps.
    void read_all(std::uint8_t *out);

private:
    template <typename Step>
    void guarded(Step step);
    void read_rows(int first, int last, std::uint8_t *out, std::size_t stride);
    bool is_upsampled() const;

    jpeg_decompress_struct image_{};
    JpegErrors errors_;
    JpegScanLimit limit_{errors_};
    int channels_ = 0;
    Buffer pixels_;
};

}  // namespace bushel
