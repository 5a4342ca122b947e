// First fit decreasing: items of different sizes are divided among rows of one capacity.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// Assign items, the largest first and of equal ones the first first, each to the first row with enough room. Return the
// number of rows, and write the row of each item. Sizes must not exceed `capacity`.
std::size_t first_fit(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity, std::uint32_t *rows);

// The number of rows that `first_fit` makes of some items, without saying which item is in which row.
class RowCounter {
public:
    explicit RowCounter(std::uint32_t capacity) : capacity_(capacity) {}

    std::size_t count(const std::uint32_t *sizes, std::size_t count);

private:
    std::uint32_t capacity_;
    std::vector<std::uint32_t> of_size_, sorted_;
};

}  // namespace bushel
