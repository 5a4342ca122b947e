// Decoding of any JPEG with libjpeg.
#pragma once
#include <cstddef>
#include <cstdint>

#include "common/image.hpp"
#include "common/memory.hpp"
#include "jpeg/libjpeg.hpp"
#include "resize/resize.hpp"

namespace bushel {

class LibjpegDecoder {
public:
    LibjpegDecoder();
    ~LibjpegDecoder();
    LibjpegDecoder(const LibjpegDecoder &) = delete;
    LibjpegDecoder &operator=(const LibjpegDecoder &) = delete;

    // Begin an image, whose bytes must stay valid, for decoding to 3 channels, or to 1 (the luma), at 1/scale of its
    // size. Unless tolerant, libjpeg's warnings are errors. Fast trades accuracy of the inverse DCT and of chroma
    // upsampling for speed. All members throw JpegError.
    void begin(const std::uint8_t *data, std::size_t size, int channels, int scale, bool tolerant, bool fast = false);

    // The size at this scale.
    int width() const { return static_cast<int>(image_.output_width); }
    int height() const { return static_cast<int>(image_.output_height); }

    // Decode a region, in pixels of the scale, with the same pixels as in the whole decoded image. They are valid until
    // the next call.
    Pixels read(const Region &region);

    // Decode the whole image into rows without gaps.
    void read_all(std::uint8_t *out);

private:
    template <typename Step>
    void guarded(Step step);
    void read_rows(int first, int last, std::uint8_t *out, std::size_t stride);
    bool is_upsampled() const;

    jpeg_decompress_struct image_{};
    LibjpegErrors errors_;
    ScanLimit limit_{errors_};
    int channels_ = 0;
    Buffer pixels_;
};

}  // namespace bushel
