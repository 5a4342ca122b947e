#include "orientation.hpp"

#include <cstring>

namespace bushel {

Pixels make_upright(const Pixels &stored, const Orientation &orientation, std::uint8_t *out) {
    const int width = orientation.turned ? stored.height : stored.width;
    const int height = orientation.turned ? stored.width : stored.height;
    const std::ptrdiff_t pixel = stored.channels;
    const std::ptrdiff_t across = orientation.across ? -pixel : pixel;
    const std::ptrdiff_t down = orientation.down ? -stored.stride : stored.stride;
    const std::uint8_t *first = stored.data + (orientation.across ? (stored.width - 1) * pixel : 0) +
                                (orientation.down ? (stored.height - 1) * stored.stride : 0);
    const std::ptrdiff_t next_pixel = orientation.turned ? down : across;
    const std::ptrdiff_t next_row = orientation.turned ? across : down;
    std::uint8_t *to = out;
    for (int y = 0; y < height; ++y) {
        const std::uint8_t *from = first + y * next_row;
        for (int x = 0; x < width; ++x, from += next_pixel, to += pixel) {
            std::memcpy(to, from, static_cast<std::size_t>(pixel));
        }
    }
    return {out, width * pixel, width, height, stored.channels};
}

}  // namespace bushel
