// The keyed permutation of docs/order.md.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// The step and the mixing function of SplitMix64, from which keys and random words are made.
constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;

constexpr std::uint64_t mix64(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
}

// An alternating Feistel network with cycle walking, which permutes 0 to size - 1.
class Permutation {
public:
    static constexpr std::int64_t limit = std::int64_t{1} << 48;
    static constexpr int rounds = 8;

    // `size` is 1 to `limit`.
    Permutation(std::int64_t size, std::uint64_t key);

    // Replace each value, which must be in the range, by its image, or by the value whose image it is. `tweak` is the
    // member of the family to use for each value; null: 0 for all.
    void apply(std::int64_t *values, std::size_t count, const std::uint32_t *tweak, bool inverse) const;

    // Write `table[image]` for the images of `first`, `first` + 1, … The table has `size` entries.
    void look_up(const std::uint32_t *table, std::int64_t first, std::uint32_t *found, std::size_t count) const;

private:
    std::int64_t size_;
    int low_bits_ = 0;
    std::uint32_t high_mask_ = 0, low_mask_ = 0;
    std::uint32_t keys_[rounds];
};

}  // namespace bushel
