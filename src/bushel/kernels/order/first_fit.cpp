#include "order/first_fit.hpp"

#include <algorithm>
#include <functional>

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
    Rooms(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < count; ++i) sum += sizes[i];
        // all rows but one are more than half full, since two that are not would have been one
        const std::uint64_t most = capacity ? 2 * sum / capacity + 1 : 1;
        while (leaves_ < std::min<std::uint64_t>(most, count)) leaves_ *= 2;
        room_.assign(2 * leaves_, capacity);
    }

    // Put items of one size, one after another, each into the first row that has room for it. `put(row, items)` is
    // called for each row that takes some: the items after the first one fit where that did, until the row is full.
    template <typename Put>
    void take(std::uint32_t size, std::size_t items, Put put) {
        while (items) {
            std::size_t node = 1;
            while (node < leaves_) {
                node *= 2;
                node += room_[node] < size;
            }
            const std::size_t fit = items == 1 || !size ? items : std::min<std::size_t>(items, room_[node] / size);
            const std::size_t row = node - leaves_;
            put(row, fit);
            used_ = std::max(used_, row + 1);
            items -= fit;
            room_[node] -= size * static_cast<std::uint32_t>(fit);
            while (node /= 2) {
                const std::uint32_t most = std::max(room_[2 * node], room_[2 * node + 1]);
                if (room_[node] == most) break;
                room_[node] = most;
            }
        }
    }

    std::size_t used() const { return used_; }

private:
    std::size_t leaves_ = 1, used_ = 0;
    std::vector<std::uint32_t> room_;
};

constexpr std::uint32_t most_counters = 1 << 16;

}  // namespace

std::size_t first_fit(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity, std::uint32_t *rows) {
    Rooms rooms(sizes, count, capacity);
    const std::vector<std::uint32_t> items = descending(sizes, count);
    for (std::size_t first = 0, last = 0; first < count; first = last) {
        const std::uint32_t size = sizes[items[first]];
        while (last < count && sizes[items[last]] == size) ++last;
        std::size_t next = first;
        rooms.take(size, last - first, [&](std::size_t row, std::size_t fit) {
            for (; fit; --fit) rows[items[next++]] = static_cast<std::uint32_t>(row);
        });
    }
    return rooms.used();
}

std::size_t RowCounter::count(const std::uint32_t *sizes, std::size_t count) {
    Rooms rooms(sizes, count, capacity_);
    const auto nothing = [](std::size_t, std::size_t) {};
    if (capacity_ < most_counters) {  // the items of each size are counted instead of sorted
        of_size_.assign(std::size_t{capacity_} + 1, 0);
        for (std::size_t i = 0; i < count; ++i) ++of_size_[sizes[i]];
        for (std::uint32_t size = capacity_ + 1; size-- > 0;) rooms.take(size, of_size_[size], nothing);
    } else {
        sorted_.assign(sizes, sizes + count);
        std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
        for (std::size_t first = 0, last = 0; first < count; first = last) {
            while (last < count && sorted_[last] == sorted_[first]) ++last;
            rooms.take(sorted_[first], last - first, nothing);
        }
    }
    return rooms.used();
}

}  // namespace bushel
