// First fit decreasing: items of different sizes are divided among rows of one capacity.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Assign items, the largest first and of equal ones the first first, each to the first row with enough room. Return the
// number of rows, and write the row of each item. Sizes must not exceed `capacity`.
std::size_t first_fit(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity, std::uint32_t *rows);

// Write the number of rows that `first_fit` makes of each window of items, without saying which item is in which row.
void count_rows(const std::uint32_t *sizes, std::size_t count, std::size_t window, std::uint32_t capacity,
                std::int64_t *counts);

}  // namespace bushel
