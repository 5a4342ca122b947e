// The inverse DCT of one block, at full size, 1/2, 1/4 and 1/8: the same levels as libjpeg's (JDCT_ISLOW and its
// reduced sizes).
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// 64 factors in natural order.
struct Quantisers {
    alignas(32) std::int16_t factor[64];
};

// Write size x size levels of a block whose coefficients after number `last` in zigzag order are zero. Return false,
// with other levels than libjpeg's, for coefficients far larger than in any image, where libjpeg's own versions for
// different processors differ.
using InverseDct = bool (*)(const std::int16_t *block, const Quantisers &quantisers, int last, std::uint8_t *out,
                            std::size_t stride);

// Return the function for a size of 8, 4, 2 or 1.
InverseDct inverse_dct(int size);

}  // namespace bushel
