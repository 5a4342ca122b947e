#include "order/shuffle.hpp"

#include <algorithm>
#include <utility>

namespace bushel {

Mt19937::Mt19937(const std::uint32_t *key, int position) : position_(position) { std::copy(key, key + words, key_); }

void Mt19937::refill() {
    constexpr int middle = 397;
    const auto twisted = [](std::uint32_t one, std::uint32_t next) {
        const std::uint32_t both = (one & 0x80000000U) | (next & 0x7fffffffU);
        return both >> 1 ^ (next & 1U ? 0x9908b0dfU : 0U);
    };
    int i = 0;
    for (; i < words - middle; ++i) key_[i] = key_[i + middle] ^ twisted(key_[i], key_[i + 1]);
    for (; i < words - 1; ++i) key_[i] = key_[i + middle - words] ^ twisted(key_[i], key_[i + 1]);
    key_[words - 1] = key_[middle - 1] ^ twisted(key_[words - 1], key_[0]);
    position_ = 0;
}

// Which items are exchanged does not depend on the items, so the places of a block of exchanges are drawn, and their
// memory asked for, before the first of them. Places come from as many bits as the largest needs; others are drawn again.
void shuffle(Mt19937 &draw, std::int32_t *items, std::size_t count) {
    constexpr std::size_t block = 256;
    std::uint32_t places[block];
    std::uint32_t mask = 0;
    while (mask < (count ? count - 1 : 0)) mask = mask << 1 | 1;
    for (std::size_t last = count ? count - 1 : 0; last > 0;) {
        const std::size_t batch = std::min(block, last);
        for (std::size_t i = 0; i < batch; ++i) {
            const auto most = static_cast<std::uint32_t>(last - i);
            while (mask >> 1 >= most) mask >>= 1;
            std::uint32_t place = draw.next() & mask;
            while (place > most) place = draw.next() & mask;
            places[i] = place;
            __builtin_prefetch(items + place, 1);
        }
        for (std::size_t i = 0; i < batch; ++i) std::swap(items[last - i], items[places[i]]);
        last -= batch;
    }
}

}  // namespace bushel
