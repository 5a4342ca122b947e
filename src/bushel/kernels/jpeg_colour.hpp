// Colours as RGB.
#pragma once
#include <cstddef>
#include <cstdint>

#include "jpeg_simd.hpp"

namespace bushel {

// Turns a row of CMYK pixels, which libjpeg leaves to its caller, into RGB, in place, as Pillow does: the levels are
// taken to be inverted, as Adobe's programs write them, and multiplied.
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

#ifdef BUSHEL_BASELINE

// Rows of samples, which may be read 32 bytes beyond their ends, as a row of RGB pixels: by the same rounding of the
// same factors (JFIF 1.02) as libjpeg.
void ycbcr_to_rgb(const std::uint8_t *luma, const std::uint8_t *blue, const std::uint8_t *red, std::size_t pixels,
                  std::uint8_t *out);

void grey_to_rgb(const std::uint8_t *luma, std::size_t pixels, std::uint8_t *out);

#endif

}  // namespace bushel
