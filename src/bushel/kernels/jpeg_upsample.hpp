// Chroma of half the width, or of half the width and height, at full size: the same levels as libjpeg's "fancy
// upsampling" (a triangle filter), or each sample twice.
#pragma once
#include "jpeg_simd.hpp"
#ifdef BUSHEL_BASELINE
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

class Upsampler {
public:
    // Twice the samples from `first` to `last` (exclusive) of a row that has `width` of them. What is returned stays
    // until the next call, and may be read 32 bytes beyond its end.
    const std::uint8_t *smooth(const std::uint8_t *row, int width, int first, int last);
    // The same for a row between others: `near` is the nearer row of samples, `far` the one on the other side.
    const std::uint8_t *smooth(const std::uint8_t *near, const std::uint8_t *far, int width, int first, int last);
    const std::uint8_t *repeat(const std::uint8_t *row, int first, int last);

private:
    void reserve(int count);

    std::vector<std::uint16_t> sums_;  // of the rows; one more at either end
    std::vector<std::uint8_t> out_;
};

}  // namespace bushel
#endif
