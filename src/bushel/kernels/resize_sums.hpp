// The one inner loop of resizing, for both directions: weighted sums of bytes, 16 side by side.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

constexpr int sum_lanes = 16;

// out[i] = the sum over k of first[k * stride + i] * weights[k], rounded and limited to a byte; i < groups * sum_lanes.
using WeightedSums = void (*)(const std::uint8_t *first, std::ptrdiff_t stride, const std::int32_t *weights, int taps,
                              std::uint8_t *out, int groups);

// The fastest one that this processor has. All give the same bytes.
WeightedSums weighted_sums();

// Turns 16 rows of `columns` bytes into `columns` rows of 16 bytes.
void rows_to_columns(const std::uint8_t *const rows[sum_lanes], std::size_t columns, std::uint8_t *out);

// The other way round; the rows are written in whole groups of 16 bytes.
void columns_to_rows(const std::uint8_t *in, std::size_t columns, std::uint8_t *const rows[sum_lanes]);

}  // namespace bushel
