// PNG (3rd edition): the filters of rows, which are stored as differences from pixels beside and above them (section 9),
// and palettes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Undo the filters of rows. Each row is a byte with the number of its filter and `row` filtered bytes.
//
// `pixel` is the number of bytes of a pixel, at least 1. Return the number of rows done: fewer than `rows` if a filter
// is unknown.
std::size_t unfilter_png(const std::uint8_t *filtered, std::size_t rows, std::size_t row, std::size_t pixel,
                         std::uint8_t *out);

// Replace indices by colours of a palette, of 4 bytes each. The first `channels` (3 or 4) are written. Return
// false if an index is not less than `colours`.
bool colour_png(const std::uint8_t *indices, std::size_t count, const std::uint8_t *palette, std::size_t colours,
                std::size_t channels, std::uint8_t *out);

}  // namespace bushel
