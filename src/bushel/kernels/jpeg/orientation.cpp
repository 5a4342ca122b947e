#include "jpeg/orientation.hpp"

#include <cstring>

namespace bushel {

namespace {

// Write the pixels in the order in which they follow each other in the output.
template <std::ptrdiff_t Channels>
void put(const Pixels &rows, int top, int height, const Orientation &orientation, std::uint8_t *out) {
    const std::ptrdiff_t width = orientation.transposed ? height : rows.width;  // of the output
    const std::ptrdiff_t step_x = orientation.flip_x ? -Channels : Channels;
    const std::ptrdiff_t step_y = orientation.flip_y ? -rows.stride : rows.stride;
    const int first_row = orientation.flip_y ? height - top - rows.height : top;
    const std::uint8_t *from = rows.data + (orientation.flip_x ? (rows.width - 1) * Channels : 0) +
                               (orientation.flip_y ? (rows.height - 1) * rows.stride : 0);
    out += first_row * (orientation.transposed ? 1 : width) * Channels;
    const std::ptrdiff_t next_pixel = orientation.transposed ? step_y : step_x;
    const std::ptrdiff_t next_row = orientation.transposed ? step_x : step_y;
    const int pixels = orientation.transposed ? rows.height : rows.width;
    const int lines = orientation.transposed ? rows.width : rows.height;
    for (int line = 0; line < lines; ++line, from += next_row, out += width * Channels) {
        for (int i = 0; i < pixels; ++i) std::memcpy(out + i * Channels, from + i * next_pixel, Channels);
    }
}

}  // namespace

void put_upright(const Pixels &rows, int top, int height, const Orientation &orientation, std::uint8_t *out) {
    (rows.channels == 1 ? put<1> : put<3>)(rows, top, height, orientation, out);
}

Pixels make_upright(const Pixels &stored, const Orientation &orientation, std::uint8_t *out) {
    const int width = orientation.transposed ? stored.height : stored.width;
    const int height = orientation.transposed ? stored.width : stored.height;
    put_upright(stored, 0, stored.height, orientation, out);
    return {out, std::ptrdiff_t{width} * stored.channels, width, height, stored.channels};
}

}  // namespace bushel
