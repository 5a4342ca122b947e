// Draws from several sets of samples, and draws by weight: the orders `balanced`, `scheduled` and `weighted` of
// docs/order.md.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Write the set of each draw, and the number of earlier draws from that set. Draws are divided into blocks of `width`,
// with `shares[i]` draws from set i, which are permuted with a key: `state` goes on with the number of the block. The
// last block is remembered, so draws should ascend.
void mixed_draws(const std::int64_t *draws, std::size_t count, const std::int64_t *shares, std::size_t sets,
                 std::size_t width, std::uint64_t state, std::int64_t *set, std::int64_t *number);

// Write the sample of each draw: of draw `number[i]` from `set[i]`, which has the size `sizes[set[i]]`, 1 or more. Sets
// are numbered one after another. Each pass through a set is permuted with a key: `state` goes on with the size of the
// set, the seed, the number of the pass and that of the set.
void draw_samples(const std::int64_t *set, const std::int64_t *number, std::size_t count, const std::int64_t *sizes,
                  std::size_t sets, std::uint64_t state, std::uint64_t seed, std::int64_t *samples);

// Write, for each of `buckets` equal parts of 0 to the last sum, and one more, the first sum that is in it or after it.
void guide_sums(const double *sums, std::size_t count, std::int64_t *guide, std::size_t buckets);

// Write the place of the first sum above each number that `random_words` of the positions give; `count` if
// all sums are smaller.
void draw_by_weight(const double *sums, std::size_t count, const std::int64_t *guide, std::size_t buckets,
                    std::uint64_t key, const std::int64_t *positions, std::size_t draws, std::int64_t *samples);

}  // namespace bushel
