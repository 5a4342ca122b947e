// The inner loop of resizing in both directions: weighted sums of bytes, 16 at a time.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

constexpr int sum_lanes = 16;

// out[i] = sum over k of first[k * stride + i] * weights[k], rounded and clipped to a byte, for i < groups * sum_lanes.
using WeightedSums = void (*)(const std::uint8_t *first, std::ptrdiff_t stride, const std::int32_t *weights, int taps,
                              std::uint8_t *out, int groups);

// Return the fastest variant for this processor. All variants give the same bytes.
WeightedSums weighted_sums();

// Transpose 16 rows of `columns` bytes into `columns` rows of 16 bytes.
void rows_to_columns(const std::uint8_t *const rows[sum_lanes], std::size_t columns, std::uint8_t *out);

// Do the reverse. Rows are written in whole groups of 16 bytes.
void columns_to_rows(const std::uint8_t *in, std::size_t columns, std::uint8_t *const rows[sum_lanes]);

}  // namespace bushel
