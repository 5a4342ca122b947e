// Entropy decoding of baseline JPEGs, a block of 8x8 coefficients at a time.
#pragma once
#include "jpeg_simd.hpp"
#ifdef BUSHEL_BASELINE
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "jpeg_huffman.hpp"

namespace bushel {

// The bytes of a segment (what lies between two restart markers) as plain bits: without the zeros that are stuffed
// behind each 0xFF, and with room behind them to be read beyond.
class SegmentBits {
public:
    // Bytes that a reader may touch behind the end, before it asks how far it has come.
    static constexpr std::size_t room = 4096;

    // Takes the bytes up to the next marker, or to the end.
    void set(const std::uint8_t *data, std::size_t size);

    const std::uint8_t *begin() const { return begin_; }
    const std::uint8_t *end() const { return begin_ + size_; }
    bool is_before_marker() const { return is_before_marker_; }

private:
    Buffer bytes_;
    const std::uint8_t *begin_ = nullptr;
    std::size_t size_ = 0;
    bool is_before_marker_ = false;
};

// A place in a segment. `bits` holds the next `count` ones, leftmost first; behind them may be more, which are the right
// ones as well.
struct BitReader {
    const std::uint8_t *next = nullptr;
    std::uint64_t bits = 0;
    unsigned count = 0;

    // At least 56 bits (Giesen, "Reading bits in far too many ways", part 3, variant 4).
    BUSHEL_INLINE void fill() {
        std::uint64_t word;
        std::memcpy(&word, next, sizeof word);
        bits |= __builtin_bswap64(word) >> count;
        next += (63 - count) >> 3;
        count |= 56;
    }
    BUSHEL_INLINE void skip(unsigned used) {
        bits <<= used;
        count -= used;
    }
    BUSHEL_INLINE std::uint64_t first(unsigned wanted) const { return bits >> (64 - wanted); }

    // How many bits of a segment are left; fewer than 0 when it was read beyond its end.
    std::ptrdiff_t left(const SegmentBits &segment) const {
        return (segment.end() - next) * 8 + static_cast<std::ptrdiff_t>(count);
    }
};

// The place of each coefficient in its block, by its number in zigzag order; runs beyond the end lead to the last one,
// as in libjpeg.
alignas(64) inline constexpr std::uint8_t natural_order[80] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

// The value that follows a code, of 1 to 15 bits (ITU T.81, F.2.2.1).
BUSHEL_INLINE int take_value(BitReader &reader, unsigned size) {
    const auto value = static_cast<int>(reader.first(size));
    const int negative = static_cast<int>(~reader.bits >> 63);
    reader.skip(size);
    return value - (negative << size) + negative;
}

constexpr int bad_code = -1;

// The code that comes next, however long it is; unknown when there is no such code. The reader must be filled.
BUSHEL_INLINE HuffmanEntry next_code(const BitReader &reader, const HuffmanTable &table) {
    const HuffmanEntry entry = table[reader.first(HuffmanTable::lookup_bits)];
    return __builtin_expect(entry.is_known(), 1) ? entry : table.longer(static_cast<std::uint32_t>(reader.first(16)));
}

// Adds the difference of a block's DC coefficient to the one before it. False for bits that are no code.
BUSHEL_INLINE bool take_dc(BitReader &reader, const HuffmanTable &table, int &predicted) {
    reader.fill();
    const HuffmanEntry entry = next_code(reader, table);
    reader.skip(entry.bits());
    predicted += entry.is_open() ? take_value(reader, entry.more()) : entry.value();
    return entry.is_known();
}

// Entries with a value, for whose bits one filling is enough.
constexpr int entries_at_once = 4;

BUSHEL_INLINE void put(std::int16_t *block, int &number, HuffmanEntry entry) {
    number += entry.run();
    block[natural_order[number++]] = static_cast<std::int16_t>(entry.value());
}

// Takes an entry that is not a code together with its value; true when the block ends there. Then `number` is behind its
// last coefficient, or bad_code.
BUSHEL_INLINE bool take_other(BitReader &reader, const HuffmanTable &table, HuffmanEntry entry, std::int16_t *block,
                              int &number) {
    if (__builtin_expect(!entry.is_known(), 0)) {
        reader.fill();
        entry = table.longer(static_cast<std::uint32_t>(reader.first(16)));
        if (!entry.is_known()) {
            number = bad_code;
            return true;
        }
    }
    reader.skip(entry.bits());
    if (entry.is_end()) return true;
    number += entry.run();
    if (entry.is_open()) {
        reader.fill();
        block[natural_order[number]] = static_cast<std::int16_t>(take_value(reader, entry.more()));
    }
    return ++number >= 64;
}

// Writes the AC coefficients of a block from a number in zigzag order on, in natural order, over zeros. Returns the
// number behind the last one that was written, or bad_code.
BUSHEL_INLINE int take_ac(BitReader &reader, const HuffmanTable &table, std::int16_t *block, int number = 1) {
    while (true) {
        reader.fill();
        for (int i = 0; i < entries_at_once; ++i) {
            const HuffmanEntry entry = table[reader.first(HuffmanTable::lookup_bits)];
            if (__builtin_expect(!entry.has_value(), 0)) {
                if (take_other(reader, table, entry, block, number)) return number;
                break;
            }
            reader.skip(entry.bits());
            put(block, number, entry);
            if (number >= 64) return number;
        }
    }
}

// The same for two blocks of two segments at once: neither waits for the other, so that a processor that runs ahead is
// busy with one where it would wait for the other.
BUSHEL_INLINE void take_two_ac(BitReader &first, BitReader &second, const HuffmanTable &table, std::int16_t *first_block,
                               std::int16_t *second_block, int &first_number, int &second_number) {
    int one = 1, two = 1;
    bool one_ends = false, two_ends = false;
    while (true) {
        first.fill();
        second.fill();
        HuffmanEntry one_entry, two_entry;
        int i = 0;
        for (; i < entries_at_once; ++i) {
            one_entry = table[first.first(HuffmanTable::lookup_bits)];
            two_entry = table[second.first(HuffmanTable::lookup_bits)];
            if (!one_entry.has_value() || !two_entry.has_value()) break;
            first.skip(one_entry.bits());
            second.skip(two_entry.bits());
            put(first_block, one, one_entry);
            put(second_block, two, two_entry);
            if (one >= 64 || two >= 64) break;
        }
        if (i == entries_at_once) continue;
        if (one >= 64 || two >= 64) {
            one_ends = one >= 64, two_ends = two >= 64;
        } else {
            if (!one_entry.has_value()) one_ends = take_other(first, table, one_entry, first_block, one);
            if (!two_entry.has_value()) two_ends = take_other(second, table, two_entry, second_block, two);
        }
        if (one_ends || two_ends) break;
    }
    first_number = one_ends ? one : take_ac(first, table, first_block, one);
    second_number = two_ends ? two : take_ac(second, table, second_block, two);
}

// Passes by one AC code. `number` is then behind it in zigzag order: from 64 on at the end of a block. False for bits
// that are no code.
BUSHEL_INLINE bool skip_code(BitReader &reader, const HuffmanTable &table, int &number) {
    const HuffmanEntry entry = next_code(reader, table);
    reader.skip(entry.bits() + (entry.is_open() ? entry.more() : 0));
    number = entry.is_end() ? 64 : number + entry.run() + 1;
    return entry.is_known();
}

// Passes by the AC codes of a block, one after the other.
BUSHEL_INLINE bool skip_ac(BitReader &reader, const HuffmanTable &table) {
    for (int number = 1; number < 64;) {
        reader.fill();
        if (!skip_code(reader, table, number)) return false;
    }
    return true;
}

// The same for a table whose strides are made: several codes at once.
BUSHEL_INLINE bool stride_ac(BitReader &reader, const HuffmanTable &table) {
    for (int number = 1; number < 64;) {
        reader.fill();
        const HuffmanStride stride = table.stride(reader.first(HuffmanTable::lookup_bits));
        const int next = number + stride.coefficients();
        // Codes behind the 64th coefficient belong to another block.
        if (__builtin_expect(stride.is_known() && next <= 64 - stride.is_end(), 1)) {
            reader.skip(stride.bits());
            number = stride.is_end() ? 64 : next;
        } else if (!skip_code(reader, table, number)) {
            return false;
        }
    }
    return true;
}

}  // namespace bushel
#endif
