#include "order/first_fit.hpp"

#include <algorithm>

namespace bushel {

namespace {

// The items in descending order of their sizes, equal ones in ascending order: a radix sort of 11 bits at a time.
std::vector<std::uint32_t> descending(const std::uint32_t *sizes, std::size_t count) {
    constexpr int digit = 11;
    constexpr std::uint32_t mask = (1U << digit) - 1;
    std::vector<std::uint32_t> items(count), sorted(count);
    for (std::size_t i = 0; i < count; ++i) items[i] = static_cast<std::uint32_t>(i);
    const std::uint32_t largest = count ? *std::max_element(sizes, sizes + count) : 0;
    for (int shift = 0; shift < 32 && largest >> shift; shift += digit) {
        std::size_t starts[mask + 2] = {};
        for (std::size_t i = 0; i < count; ++i) ++starts[mask - (sizes[i] >> shift & mask) + 1];
        for (std::uint32_t i = 0; i <= mask; ++i) starts[i + 1] += starts[i];
        for (const std::uint32_t item : items) sorted[starts[mask - (sizes[item] >> shift & mask)]++] = item;
        items.swap(sorted);
    }
    return items;
}

// The rows in a binary tree whose inner nodes have the most room of the rows below them.
class Rooms {
public:
    Rooms(std::size_t rows, std::uint32_t capacity) {
        while (leaves_ < rows) leaves_ *= 2;
        room_.assign(2 * leaves_, capacity);
    }

    // Take room in the first row that has it. There must be one.
    std::size_t take(std::uint32_t size) {
        std::size_t node = 1;
        while (node < leaves_) {
            node *= 2;
            node += room_[node] < size;
        }
        const std::size_t row = node - leaves_;
        room_[node] -= size;
        while (node /= 2) {
            const std::uint32_t most = std::max(room_[2 * node], room_[2 * node + 1]);
            if (room_[node] == most) break;
            room_[node] = most;
        }
        return row;
    }

private:
    std::size_t leaves_ = 1;
    std::vector<std::uint32_t> room_;
};

}  // namespace

std::size_t first_fit(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity, std::uint32_t *rows) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += sizes[i];
    // all rows but one are more than half full, since two that are not would have been one
    const std::uint64_t most = capacity ? 2 * sum / capacity + 1 : 1;
    Rooms rooms(static_cast<std::size_t>(std::min<std::uint64_t>(most, std::max<std::size_t>(count, 1))), capacity);
    std::size_t used = 0;
    for (const std::uint32_t item : descending(sizes, count)) {
        const std::size_t row = rooms.take(sizes[item]);
        rows[item] = static_cast<std::uint32_t>(row);
        used = std::max(used, row + 1);
    }
    return used;
}

}  // namespace bushel
