#include "png/unfilter.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace bushel {

namespace {

enum Filter : std::uint8_t { none, sub, up, average, paeth };

std::uint8_t paeth_of(int left, int above, int corner) {
    const int to_left = std::abs(above - corner), to_above = std::abs(left - corner);
    const int to_corner = std::abs(left + above - 2 * corner);
    int nearest = to_above <= to_corner ? above : corner;
    if (to_left <= to_above && to_left <= to_corner) nearest = left;
    return static_cast<std::uint8_t>(nearest);
}

// `above` is the row before this one, and zeros for the first row; the pixel before the first one is zero, too. The
// size of a pixel is a constant, so that its neighbours stay in registers.
template <std::size_t pixel>
void undo(Filter filter, const std::uint8_t *in, const std::uint8_t *above, std::size_t row, std::uint8_t *out) {
    std::uint8_t left[pixel] = {}, corner[pixel] = {};
    if (filter == sub) {
        for (std::size_t at = 0; at < row; at += pixel) {
            for (std::size_t i = 0; i < pixel; ++i) out[at + i] = left[i] = static_cast<std::uint8_t>(in[at + i] + left[i]);
        }
    } else if (filter == average) {
        for (std::size_t at = 0; at < row; at += pixel) {
            for (std::size_t i = 0; i < pixel; ++i) {
                out[at + i] = left[i] = static_cast<std::uint8_t>(in[at + i] + (left[i] + above[at + i]) / 2);
            }
        }
    } else {
        for (std::size_t at = 0; at < row; at += pixel) {
            for (std::size_t i = 0; i < pixel; ++i) {
                const std::uint8_t over = above[at + i];
                left[i] = static_cast<std::uint8_t>(in[at + i] + paeth_of(left[i], over, corner[i]));
                corner[i] = over;
                out[at + i] = left[i];
            }
        }
    }
}

using Undo = void (*)(Filter, const std::uint8_t *, const std::uint8_t *, std::size_t, std::uint8_t *);

}  // namespace

std::size_t unfilter_png(const std::uint8_t *filtered, std::size_t rows, std::size_t row, std::size_t pixel,
                         std::uint8_t *out) {
    static constexpr Undo of_pixels[] = {undo<1>, undo<2>, undo<3>, undo<4>};
    const Undo undo_neighbours = of_pixels[pixel - 1];
    const std::vector<std::uint8_t> zeros(row);
    const std::uint8_t *above = zeros.data();
    for (std::size_t number = 0; number < rows; ++number, filtered += row + 1, above = out, out += row) {
        const std::uint8_t *const in = filtered + 1;
        switch (filtered[0]) {
            case none:
                std::memcpy(out, in, row);
                break;
            case up:
                for (std::size_t at = 0; at < row; ++at) out[at] = static_cast<std::uint8_t>(in[at] + above[at]);
                break;
            case sub:
            case average:
            case paeth:
                undo_neighbours(static_cast<Filter>(filtered[0]), in, above, row, out);
                break;
            default:
                return number;
        }
    }
    return rows;
}

bool colour_png(const std::uint8_t *indices, std::size_t count, const std::uint8_t *palette, std::size_t colours,
                std::size_t channels, std::uint8_t *out) {
    if (!count) return true;
    if (*std::max_element(indices, indices + count) >= colours) return false;
    if (channels == 4) {
        for (std::size_t i = 0; i < count; ++i) std::memcpy(out + 4 * i, palette + 4 * indices[i], 4);
        return true;
    }
    // 4 bytes are written for each of 3, and the next pixel replaces the last one. Masks have runs of one index.
    std::size_t i = 0;
    std::uint8_t same[24];
    int same_of = -1;
    for (; i + 8 < count; i += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, indices + i, 8);
        if (eight == indices[i] * std::uint64_t{0x0101010101010101}) {
            for (int k = 0; same_of != indices[i] && k < 8; ++k) std::memcpy(same + 3 * k, palette + 4 * indices[i], 3);
            same_of = indices[i];
            std::memcpy(out + 3 * i, same, sizeof same);
        } else {
            for (std::size_t k = i; k < i + 8; ++k) std::memcpy(out + 3 * k, palette + 4 * indices[k], 4);
        }
    }
    for (; i + 1 < count; ++i) std::memcpy(out + 3 * i, palette + 4 * indices[i], 4);
    std::memcpy(out + 3 * (count - 1), palette + 4 * indices[count - 1], 3);
    return true;
}

}  // namespace bushel
