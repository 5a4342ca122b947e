// Colours that libjpeg leaves to its caller.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Turns a row of CMYK pixels into RGB, in place, as Pillow does: the levels are taken to be inverted, as Adobe's
// programs write them, and multiplied.
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

}  // namespace bushel
