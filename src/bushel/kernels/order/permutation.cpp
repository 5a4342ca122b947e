#include "order/permutation.hpp"

#include <algorithm>

#include "common/simd.hpp"

namespace bushel {

namespace {

constexpr int smallest_bits = 6;

__attribute__((always_inline)) inline std::uint32_t hash32(std::uint32_t word) {
    word = (word ^ (word >> 16)) * 0x7FEB352D;
    word = (word ^ (word >> 15)) * 0x846CA68B;
    return word ^ (word >> 16);
}

struct Halves {
    const std::uint32_t *keys;
    std::uint32_t high_mask, low_mask;
};

// The rounds of the network for many values, whose halves change in place. The compiler makes vector instructions of it.
__attribute__((always_inline)) inline void network(const Halves &with, std::uint32_t *__restrict high,
                                                   std::uint32_t *__restrict low, const std::uint32_t *__restrict tweak,
                                                   std::size_t count, bool inverse) {
    for (int step = 0; step < Permutation::rounds; ++step) {
        const int round = inverse ? Permutation::rounds - 1 - step : step;
        const std::uint32_t key = with.keys[round];
        if (round % 2 == 0) {
            for (std::size_t i = 0; i < count; ++i) high[i] ^= hash32(low[i] ^ key ^ tweak[i]) & with.high_mask;
        } else {
            for (std::size_t i = 0; i < count; ++i) low[i] ^= hash32(high[i] ^ key ^ tweak[i]) & with.low_mask;
        }
    }
}

void network_scalar(const Halves &with, std::uint32_t *high, std::uint32_t *low, const std::uint32_t *tweak,
                    std::size_t count, bool inverse) {
    network(with, high, low, tweak, count, inverse);
}

#ifdef BUSHEL_X86
BUSHEL_AVX2 void network_avx2(const Halves &with, std::uint32_t *high, std::uint32_t *low, const std::uint32_t *tweak,
                              std::size_t count, bool inverse) {
    network(with, high, low, tweak, count, inverse);
}

BUSHEL_AVX512 void network_avx512(const Halves &with, std::uint32_t *high, std::uint32_t *low, const std::uint32_t *tweak,
                                  std::size_t count, bool inverse) {
    network(with, high, low, tweak, count, inverse);
}
#endif

using Network = void (*)(const Halves &, std::uint32_t *, std::uint32_t *, const std::uint32_t *, std::size_t, bool);

Network network_here() {
    static const Network chosen = select<Network>({
#ifdef BUSHEL_X86
        {Simd::avx512, &network_avx512},
        {Simd::avx2, &network_avx2},
#endif
        {Simd::scalar, &network_scalar},
    });
    return chosen;
}

constexpr std::size_t block = 512;

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t key) : size_(size) {
    int bits = smallest_bits;
    while (bits < 48 && (std::int64_t{1} << bits) < size) ++bits;
    const int high_bits = bits / 2;
    low_bits_ = bits - high_bits;
    high_mask_ = (std::uint32_t{1} << high_bits) - 1;
    low_mask_ = (std::uint32_t{1} << low_bits_) - 1;
    for (int round = 0; round < rounds; ++round) {
        keys_[round] = static_cast<std::uint32_t>(mix64(key + static_cast<std::uint64_t>(round + 1) * golden) >> 32);
    }
}

// Values walk block by block: first all of a block once, then those that are outside again.
void Permutation::apply(std::int64_t *values, std::size_t count, const std::uint32_t *tweak, bool inverse) const {
    if (size_ == 1) {
        std::fill(values, values + count, 0);
        return;
    }
    std::uint32_t high[block], low[block], tweaks[block] = {};
    std::uint16_t walking[block];
    const Halves with = {keys_, high_mask_, low_mask_};
    const Network run = network_here();
    for (std::size_t first = 0; first < count; first += block) {
        std::int64_t *const block_values = values + first;
        std::size_t left = std::min(block, count - first);
        for (std::size_t i = 0; i < left; ++i) walking[i] = static_cast<std::uint16_t>(i);
        while (left) {
            for (std::size_t k = 0; k < left; ++k) {
                const auto value = static_cast<std::uint64_t>(block_values[walking[k]]);
                high[k] = static_cast<std::uint32_t>(value >> low_bits_);
                low[k] = static_cast<std::uint32_t>(value) & low_mask_;
                if (tweak) tweaks[k] = tweak[first + walking[k]];
            }
            run(with, high, low, tweaks, left, inverse);
            std::size_t still = 0;
            for (std::size_t k = 0; k < left; ++k) {
                const std::uint16_t i = walking[k];
                block_values[i] = static_cast<std::int64_t>(std::uint64_t{high[k]} << low_bits_ | low[k]);
                walking[still] = i;
                still += block_values[i] >= size_;
            }
            left = still;
        }
    }
}

// The entries are anywhere in the table, so all entries of a block are asked for before the first of them is used.
void Permutation::look_up(const std::uint32_t *table, std::int64_t first, std::uint32_t *found, std::size_t count) const {
    std::int64_t images[block];
    for (std::size_t start = 0; start < count; start += block) {
        const std::size_t batch = std::min(block, count - start);
        for (std::size_t i = 0; i < batch; ++i) images[i] = first + static_cast<std::int64_t>(start + i);
        apply(images, batch, nullptr, false);
        for (std::size_t i = 0; i < batch; ++i) __builtin_prefetch(table + images[i]);
        for (std::size_t i = 0; i < batch; ++i) found[start + i] = table[images[i]];
    }
}

}  // namespace bushel
