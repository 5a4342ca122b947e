// Rectangles of an image, and views of its pixels.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Columns and rows of an image; right and bottom are exclusive.
struct Region {
    int left = 0, top = 0, right = 0, bottom = 0;

    int width() const { return right - left; }
    int height() const { return bottom - top; }
    bool is_empty() const { return right <= left || bottom <= top; }
};

// A quotient of numbers from 0, rounded up.
template <typename Number>
constexpr Number divide_up(Number value, int divisor) {
    return (value + static_cast<Number>(divisor - 1)) / static_cast<Number>(divisor);
}

// A view of rows of interleaved 8-bit pixels; it does not own them.
struct Pixels {
    const std::uint8_t *data = nullptr;
    std::ptrdiff_t stride = 0;  // bytes from one row to the next
    int width = 0, height = 0;
    int channels = 0;
};

}  // namespace bushel
