// Entropy decoding of a block's AC coefficients in progressive JPEGs (ITU T.81, G.1.2.2 and G.1.2.3, and figure G.7).
// Which coefficients of a block are not zero is kept beside the block, as a bit each in zigzag order: that is all that
// later scans need of blocks outside a region.
#pragma once
#include <cstdint>

#include "common/vectors.hpp"
#include "jpeg/entropy.hpp"
#include "jpeg/progression.hpp"

namespace bushel {

// The coefficients that a scan has, in zigzag order, and the power of two of its values.
struct Band {
    int first, last, shift;
    std::uint64_t bits;

    explicit Band(const ProgressiveScan &scan)
        : first(scan.first),
          last(scan.last),
          shift(scan.shift),
          bits((~std::uint64_t{0} >> (63 - scan.last)) & (~std::uint64_t{0} << scan.first)) {}
};

// Return the next entry, with its value or a value to follow; take its bits, but not the bits of that value.
BUSHEL_VECTORS_INLINE HuffmanEntry take_entry(BitReader &reader, const HuffmanTable &table) {
    reader.fill();
    const HuffmanEntry entry = next_code(reader, table);
    reader.skip(entry.bits());
    return entry;
}

// Return the number of blocks that end here (EOBRUN), the one at hand included.
BUSHEL_VECTORS_INLINE int take_eob_run(BitReader &reader, HuffmanEntry entry) {
    const auto size = static_cast<unsigned>(entry.run());
    if (size == 0) return 1;
    reader.fill();
    const int run = (1 << size) + static_cast<int>(reader.first(size));
    reader.skip(size);
    return run;
}

// Read the band of a block that no scan had before, into zeroed memory in natural order. Set `eob_run` to the number of
// blocks after it that have nothing in this band. Return false for what no encoder writes.
BUSHEL_VECTORS_INLINE bool take_first_ac(BitReader &reader, const HuffmanTable &table, const Band &band,
                                         std::int16_t *block, std::uint64_t &nonzero, int &eob_run) {
    constexpr unsigned max_value_bits = 10;  // shifted, they fit 16 bits
    std::uint64_t found = 0;
    int number = band.first;
    while (number <= band.last) {
        const HuffmanEntry entry = take_entry(reader, table);
        if (__builtin_expect(!entry.is_known(), 0)) return false;
        if (entry.is_eob()) {
            eob_run = take_eob_run(reader, entry) - 1;
            break;
        }
        number += entry.run();
        if (number > band.last) return false;
        int value = entry.value();
        if (entry.needs_value()) {
            if (entry.value_bits() > max_value_bits) return false;
            value = take_value(reader, entry.value_bits());
        }
        block[natural_order[number]] = static_cast<std::int16_t>(value * (1 << band.shift));
        found |= static_cast<std::uint64_t>(value != 0) << number;
        ++number;
    }
    nonzero |= found;
    return true;
}

// Clear the lowest bits that are set; all, if they are not more than `count`. On x86 an instruction finds the place,
// because processors cannot predict how often the loop runs.
BUSHEL_VECTORS_INLINE std::uint64_t without_lowest(std::uint64_t bits, int count) {
#ifdef BUSHEL_X86
    return bits & (0 - _pdep_u64(std::uint64_t{1} << count, bits));
#else
    for (; count > 0; --count) bits &= bits - 1;
    return bits;
#endif
}

// The bits that a block's scan adds to its nonzero coefficients, in their order. They are collected first, because
// loops over the few coefficients between two codes end at places that a processor cannot predict.
class Corrections {
public:
    // Take a bit for each of some coefficients.
    BUSHEL_VECTORS_INLINE void take(BitReader &reader, std::uint64_t numbers) {
        constexpr unsigned left = 39;  // after `fill`, a code and a sign
        auto count = static_cast<unsigned>(__builtin_popcountll(numbers));
        if (__builtin_expect(count > left, 0)) {
            take_few(reader, left);
            reader.fill();
            count -= left;
        }
        take_few(reader, count);
    }

    // Add the bits to all coefficients that they belong to: whether the magnitude grows.
    BUSHEL_VECTORS_INLINE void apply(std::uint64_t numbers, int shift, std::int16_t *block) const {
        if (bits_ == 0) return;
        for (int bit = __builtin_popcountll(numbers) - 1; bit >= 0; --bit, numbers &= numbers - 1) {
            std::int16_t &value = block[natural_order[__builtin_ctzll(numbers)]];
            const int step = ((value >> 15) | 1) * (1 << shift);
            value = static_cast<std::int16_t>(value + (step & -static_cast<int>(bits_ >> bit & 1)));
        }
    }

private:
    BUSHEL_VECTORS_INLINE void take_few(BitReader &reader, unsigned count) {
        bits_ = bits_ << count | reader.bits >> 1 >> (63 - count);
        reader.skip(count);
    }

    std::uint64_t bits_ = 0;  // the last one is the lowest
};

// Read the next bit of the band of a block, and the coefficients whose first bit this is. `eob_run` is the number of
// blocks that end here, this one included, and is set to the number of the next block. Return false for what no encoder
// writes. The coefficients of a block that is not needed are left as they are.
template <bool Needed>
BUSHEL_VECTORS_INLINE bool refine_ac(BitReader &reader, const HuffmanTable &table, const Band &band,
                                     std::int16_t *block, std::uint64_t &nonzero, int &eob_run) {
    const std::uint64_t known = nonzero & band.bits;
    std::uint64_t left = known, zeros = ~nonzero & band.bits;  // what has not been passed yet
    Corrections corrections;
    for (int number = band.first; eob_run == 0 && number <= band.last; ++number) {
        const HuffmanEntry entry = take_entry(reader, table);
        if (__builtin_expect(!entry.is_known(), 0)) return false;
        if (entry.is_eob()) {
            eob_run = take_eob_run(reader, entry);
            break;
        }
        int value = entry.value();
        if (entry.needs_value()) value = entry.value_bits() == 1 ? take_value(reader, 1) : 2;
        if (value < -1 || value > 1) return false;
        zeros = without_lowest(zeros, entry.run());
        if (!zeros) return false;
        number = __builtin_ctzll(zeros);
        zeros &= zeros - 1;
        const std::uint64_t passed = left & ((std::uint64_t{1} << number) - 1);
        left ^= passed;
        corrections.take(reader, passed);
        if (Needed && value) block[natural_order[number]] = static_cast<std::int16_t>(value * (1 << band.shift));
        nonzero |= static_cast<std::uint64_t>(value != 0) << number;
    }
    if (eob_run > 0) {
        if (left) {
            reader.fill();
            corrections.take(reader, left);
        }
        --eob_run;
    }
    if constexpr (Needed) corrections.apply(known, band.shift, block);
    return true;
}

}  // namespace bushel
