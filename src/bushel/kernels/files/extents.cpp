#include "files/extents.hpp"

#include <algorithm>

namespace bushel {

std::int64_t first_outside(const std::int64_t *offset, const std::int64_t *length, std::size_t count,
                           std::int64_t size) {
    constexpr std::size_t together = 256;  // without a branch for each, so that compilers use vectors
    const auto is_outside = [&](std::size_t i) {
        const auto start = static_cast<std::uint64_t>(offset[i]), bytes = static_cast<std::uint64_t>(length[i]);
        const auto limit = static_cast<std::uint64_t>(size);  // numbers below zero are above it
        return (length[i] != -1) & ((start > limit) | (bytes > limit) | (bytes > limit - start));
    };
    for (std::size_t first = 0; first < count; first += together) {
        const std::size_t end = std::min(count, first + together);
        bool any = false;
        for (std::size_t i = first; i < end; ++i) any |= is_outside(i);
        if (!any) continue;
        for (std::size_t i = first; i < end; ++i) {
            if (is_outside(i)) return static_cast<std::int64_t>(i);
        }
    }
    return -1;
}

}  // namespace bushel
