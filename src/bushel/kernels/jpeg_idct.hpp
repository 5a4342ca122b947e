// The inverse DCT of one block, at full size and at 1/2, 1/4 and 1/8 of it: the same levels as libjpeg's (JDCT_ISLOW
// and its reduced sizes).
#pragma once
#include "jpeg_simd.hpp"
#ifdef BUSHEL_BASELINE
#include <cstddef>
#include <cstdint>

namespace bushel {

// 64 factors in natural order, as the coefficients are.
struct Quantisers {
    alignas(32) std::int16_t factor[64];
};

// Writes size x size levels of a block, whose coefficients behind number `last` in zigzag order are zero. False, and
// other levels than libjpeg's, for coefficients far beyond those of any image: there its versions for different
// processors differ from each other, too.
using InverseDct = bool (*)(const std::int16_t *block, const Quantisers &quantisers, int last, std::uint8_t *out,
                            std::size_t stride);

// For a size of 8, 4, 2 or 1.
InverseDct inverse_dct(int size);

}  // namespace bushel
#endif
