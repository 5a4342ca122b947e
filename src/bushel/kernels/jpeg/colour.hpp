// Chroma upsampling, and conversion of colours to RGB.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// Convert a row of CMYK pixels, which libjpeg does not convert, to RGB in place, as Pillow does: levels are inverted,
// as Adobe's programs write them, and multiplied.
inline void cmyk_to_rgb(std::uint8_t *row, std::size_t pixels) {
    const std::uint8_t *from = row;
    for (std::size_t x = 0; x < pixels; ++x, from += 4, row += 3) {
        const int white = from[3];
        for (int i = 0; i < 3; ++i) {
            const int product = (255 - from[i]) * white + 128;
            row[i] = static_cast<std::uint8_t>(white - (((product >> 8) + product) >> 8));
        }
    }
}

// Convert rows of samples, which may be read 32 bytes beyond their ends, to a row of RGB pixels, with libjpeg's factors
// (JFIF 1.02) and rounding.
void ycbcr_to_rgb(const std::uint8_t *luma, const std::uint8_t *cb, const std::uint8_t *cr, std::size_t pixels,
                  std::uint8_t *out);

void grey_to_rgb(const std::uint8_t *luma, std::size_t pixels, std::uint8_t *out);

// Upsampling of chroma that has half the width, or half the width and height, of the image: libjpeg's "fancy
// upsampling" (a triangle filter), or repetition of each sample.
class Upsampler {
public:
    // Return two samples for each of the samples from `first` to `last` (exclusive) of a row of `width` samples. They
    // are valid until the next call; 32 bytes after them may be read.
    const std::uint8_t *smooth(const std::uint8_t *row, int width, int first, int last);
    // Do the same for a row between two rows of samples. `near` is the nearer one.
    const std::uint8_t *smooth(const std::uint8_t *near, const std::uint8_t *far, int width, int first, int last);
    const std::uint8_t *repeat(const std::uint8_t *row, int first, int last);

private:
    void reserve(int count);

    std::vector<std::uint16_t> sums_;  // of the rows, with one more at either end
    std::vector<std::uint8_t> out_;
};

}  // namespace bushel
