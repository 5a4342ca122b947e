#include "order/draws.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "order/permutation.hpp"

namespace bushel {

namespace {

// The hash `derive` of docs/order.md goes on from the hash of some words to that of one more.
std::uint64_t derive_more(std::uint64_t state, std::uint64_t word) { return mix64((state ^ word) + golden); }

// The draws in ascending order of their sets, and of one set as they come: by counting, unless there are many more
// sets.
std::vector<std::size_t> by_set(const std::int64_t *set, std::size_t count, std::size_t sets) {
    std::vector<std::size_t> order(count);
    if (sets / 4 > count) {
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [set](std::size_t one, std::size_t other) { return set[one] < set[other]; });
        return order;
    }
    std::vector<std::size_t> ends(sets + 1);
    for (std::size_t i = 0; i < count; ++i) ++ends[static_cast<std::size_t>(set[i]) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    for (std::size_t i = 0; i < count; ++i) order[ends[static_cast<std::size_t>(set[i])]++] = i;
    return order;
}

// Buckets in each unit of a sum.
double buckets_per_unit(const double *sums, std::size_t count, std::size_t buckets) {
    const double scale = static_cast<double>(buckets) / sums[count - 1];
    return std::isfinite(scale) ? scale : 0;
}

// The bucket of a number from 0, which grows with it.
std::size_t bucket_of(double number, double scale, std::size_t buckets) {
    return std::min(static_cast<std::size_t>(number * scale), buckets);
}

std::uint64_t word_at(std::uint64_t key, std::int64_t position) {
    return mix64(key + (static_cast<std::uint64_t>(position) + 1) * golden);
}

}  // namespace

void mixed_draws(const std::int64_t *draws, std::size_t count, const std::int64_t *shares, std::size_t sets,
                 std::size_t width, std::uint64_t state, std::int64_t *set, std::int64_t *number) {
    const auto size = static_cast<std::int64_t>(width);
    std::vector<std::int64_t> set_of(width), sets_of_block(width), before(width), drawn(sets);
    auto next = set_of.begin();
    for (std::size_t i = 0; i < sets; ++i) next = std::fill_n(next, shares[i], static_cast<std::int64_t>(i));
    std::int64_t block = 0, start = -size;  // of the block that is in `own` and `before`; none yet
    for (std::size_t i = 0; i < count; ++i) {
        if (draws[i] < start || draws[i] - start >= size) {
            block = draws[i] / size;
            start = block * size;
            std::iota(sets_of_block.begin(), sets_of_block.end(), std::int64_t{0});
            Permutation(size, derive_more(state, static_cast<std::uint64_t>(block)))
                .apply(sets_of_block.data(), width, nullptr, false);
            std::fill(drawn.begin(), drawn.end(), 0);
            for (std::size_t k = 0; k < width; ++k) {
                sets_of_block[k] = set_of[static_cast<std::size_t>(sets_of_block[k])];
                before[k] = drawn[static_cast<std::size_t>(sets_of_block[k])]++;
            }
        }
        const auto place = static_cast<std::size_t>(draws[i] - start);
        set[i] = sets_of_block[place];
        number[i] = block * shares[sets_of_block[place]] + before[place];
    }
}

void draw_samples(const std::int64_t *set, const std::int64_t *number, std::size_t count, const std::int64_t *sizes,
                  std::size_t sets, std::uint64_t state, std::uint64_t seed, std::int64_t *samples) {
    const std::vector<std::size_t> order = by_set(set, count, sets);
    std::vector<std::int64_t> values(count);
    std::int64_t start = 0;  // of the samples of the set
    std::size_t before = 0;  // sets whose samples are counted in `start`
    for (std::size_t first = 0, last = 0; first < count; first = last) {
        const auto number_of_set = static_cast<std::size_t>(set[order[first]]);
        for (; before < number_of_set; ++before) start += sizes[before];
        const std::int64_t size = sizes[number_of_set], pass = number[order[first]] / size, low = pass * size;
        for (; last < count && static_cast<std::size_t>(set[order[last]]) == number_of_set; ++last) {
            const std::int64_t value = number[order[last]] - low;
            if (value < 0 || value >= size) break;  // another pass
            values[last] = value;
        }
        std::uint64_t key = state;
        for (const std::uint64_t word : {static_cast<std::uint64_t>(size), seed, static_cast<std::uint64_t>(pass),
                                         static_cast<std::uint64_t>(number_of_set)}) {
            key = derive_more(key, word);
        }
        Permutation(size, key).apply(values.data() + first, last - first, nullptr, false);
        for (std::size_t i = first; i < last; ++i) samples[order[i]] = start + values[i];
    }
}

void guide_sums(const double *sums, std::size_t count, std::int64_t *guide, std::size_t buckets) {
    const double scale = buckets_per_unit(sums, count, buckets);
    std::size_t bucket = 0;
    for (std::size_t i = 0; i < count; ++i) {
        for (const std::size_t last_bucket = bucket_of(sums[i], scale, buckets); bucket <= last_bucket; ++bucket) {
            guide[bucket] = static_cast<std::int64_t>(i);
        }
    }
    for (; bucket <= buckets + 1; ++bucket) guide[bucket] = static_cast<std::int64_t>(count);
}

// Entries are anywhere in memory, so all that a block of draws needs are asked for before the first of them is used.
void draw_by_weight(const double *sums, std::size_t count, const std::int64_t *guide, std::size_t buckets,
                    std::uint64_t key, const std::int64_t *positions, std::size_t draws, std::int64_t *samples) {
    constexpr std::size_t block = 128;
    double numbers[block];
    const std::int64_t *places[block];
    const double all = sums[count - 1], scale = buckets_per_unit(sums, count, buckets);
    for (std::size_t first = 0; first < draws; first += block) {
        const std::size_t batch = std::min(block, draws - first);
        for (std::size_t i = 0; i < batch; ++i) {
            const std::uint64_t word = word_at(key, positions[first + i]);
            numbers[i] = static_cast<double>(word >> 11) * 0x1p-53 * all;
            places[i] = guide + bucket_of(numbers[i], scale, buckets);
            __builtin_prefetch(places[i]);
        }
        for (std::size_t i = 0; i < batch; ++i)
            __builtin_prefetch(sums + std::min(static_cast<std::size_t>(*places[i]), count));
        for (std::size_t i = 0; i < batch; ++i) {
            // the sum that the guide has for the next bucket is above the number, and may be the answer
            const std::size_t low = std::min(static_cast<std::size_t>(places[i][0]), count);
            const std::size_t high = std::clamp(static_cast<std::size_t>(places[i][1]), low, count);
            samples[first + i] = std::upper_bound(sums + low, sums + high, numbers[i]) - sums;
        }
    }
}

}  // namespace bushel
