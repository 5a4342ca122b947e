#include "order/first_fit.hpp"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

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

// A power of two, at least the number of rows that items take.
std::size_t leaves_for(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += sizes[i];
    // all rows but one are more than half full, since two that are not would have been one
    const std::uint64_t most = capacity ? 2 * sum / capacity + 1 : 1;
    std::size_t leaves = 1;
    while (leaves < std::min<std::uint64_t>(most, count)) leaves *= 2;
    return leaves;
}

// The rows in a binary tree whose inner nodes have the most room of the rows below them.
class Rooms {
public:
    Rooms(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity) {
        leaves_ = leaves_for(sizes, count, capacity);
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

// The items of a window, by size, and the tree of its rows.
struct Counting {
    std::vector<std::uint32_t> of_size, sorted, room;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;  // each size, and how many items have it; descending
    std::size_t next = 0, used = 0, node = 1;
    std::uint32_t size = 0, left = 0;

    void begin(const std::uint32_t *sizes, std::size_t count, std::uint32_t capacity) {
        next = used = 0;
        runs.clear();
        if (capacity < most_counters) {  // the items of each size are counted instead of sorted
            of_size.assign(std::size_t{capacity} + 1, 0);
            for (std::size_t i = 0; i < count; ++i) ++of_size[sizes[i]];
            for (std::uint32_t item_size = capacity + 1; item_size-- > 0;) {
                if (of_size[item_size]) runs.emplace_back(item_size, of_size[item_size]);
            }
        } else {
            sorted.assign(sizes, sizes + count);
            std::sort(sorted.begin(), sorted.end(), std::greater<>());
            for (const std::uint32_t item_size : sorted) {
                if (runs.empty() || runs.back().first != item_size) runs.emplace_back(item_size, 0);
                ++runs.back().second;
            }
        }
    }

    // Go to the next size, if there is one. Without items, the first row takes nothing, again and again.
    bool advance() {
        if (next == runs.size()) return false;
        std::tie(size, left) = runs[next++];
        return true;
    }
};

// Count the rows of windows, whose items were given to `begin`. A step in a tree waits for the one before it, so the
// trees of all windows are walked together.
template <std::size_t many>
void count_together(Counting (&windows)[many], std::size_t leaves, std::uint32_t capacity) {
    std::size_t active = 0;
    for (Counting &counting : windows) {
        counting.room.assign(2 * leaves, capacity);
        counting.size = counting.left = 0;
        active += counting.advance();
    }
    while (active) {
        for (Counting &counting : windows) counting.node = 1;
        for (std::size_t level = 1; level < leaves; level *= 2) {
            for (Counting &counting : windows) {
                counting.node *= 2;
                counting.node += counting.room[counting.node] < counting.size;
            }
        }
        for (Counting &counting : windows) {
            std::uint32_t &room = counting.room[counting.node];
            const bool takes_all = counting.left < 2 || !counting.size;
            const std::uint32_t fit = takes_all ? counting.left : std::min(counting.left, room / counting.size);
            room -= counting.size * fit;
            if (fit) counting.used = std::max(counting.used, counting.node - leaves + 1);
            counting.left -= fit;
            if (fit && !counting.left && !counting.advance()) {
                counting.size = 0;
                --active;
            }
        }
        for (std::size_t level = 1; level < leaves; level *= 2) {
            for (Counting &counting : windows) {
                counting.node /= 2;
                counting.room[counting.node] =
                    std::max(counting.room[2 * counting.node], counting.room[2 * counting.node + 1]);
            }
        }
    }
}

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

void count_rows(const std::uint32_t *sizes, std::size_t count, std::size_t window, std::uint32_t capacity,
                std::int64_t *counts) {
    constexpr std::size_t many = 4;
    Counting windows[many];
    for (std::size_t first = 0; first < count;) {
        std::size_t leaves = 1, begun = 0;
        for (Counting &counting : windows) {
            const std::size_t items = std::min(window, count - first);
            counting.begin(sizes + first, items, capacity);
            leaves = std::max(leaves, leaves_for(sizes + first, items, capacity));
            begun += items > 0;
            first += items;
        }
        count_together(windows, leaves, capacity);
        for (std::size_t i = 0; i < begun; ++i) *counts++ = static_cast<std::int64_t>(windows[i].used);
    }
}

}  // namespace bushel
