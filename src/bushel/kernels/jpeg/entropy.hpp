// Entropy decoding of baseline JPEGs (ITU T.81 annexes C and F.2): Huffman tables whose lookup gives a code and its
// value in one step, and the coefficients of 8x8 blocks. progressive_entropy.hpp has what progressive ones add.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/memory.hpp"
#include "common/vectors.hpp"
#include "jpeg/header.hpp"

namespace bushel {

// The meaning of the next bits of a stream: a code, and the value after it if that fits in the lookup. The lowest six
// bits of the word are the number of bits used, so that a shift can take its count from the word as it is.
class HuffmanEntry {
public:
    HuffmanEntry() = default;
    // A code after which a value of `value_bits` bits follows.
    static HuffmanEntry code_only(int bits, int run, int value_bits) {
        return HuffmanEntry(bits | needs_value_bit | run << 8 | value_bits << 12);
    }
    // A code together with its value.
    static HuffmanEntry with_value(int bits, int run, int value) {
        return HuffmanEntry(bits | run << 8 | value * 65536);
    }
    // AC codes without a value: 16 zeros (ZRL), and the end of the block (EOB). In a progressive image, the latter ends
    // 2 to the power of `run` blocks and as many as the next `run` bits say.
    static HuffmanEntry zrl(int bits) { return HuffmanEntry(bits | 15 << 8); }
    static HuffmanEntry eob(int bits, int run) { return HuffmanEntry(bits | is_eob_bit | run << 8); }

    bool is_known() const { return word_ != 0; }  // a code has a bit at least
    bool needs_value() const { return word_ & needs_value_bit; }
    bool is_eob() const { return word_ & is_eob_bit; }
    bool has_value() const { return static_cast<std::uint32_t>(word_) >> 16; }  // a value other than 0
    int value() const { return word_ >> 16; }
    unsigned bits() const { return word_ & 63; }
    int run() const { return word_ >> 8 & 15; }
    unsigned value_bits() const { return word_ >> 12 & 15; }

private:
    static constexpr int is_eob_bit = 1 << 6, needs_value_bit = 1 << 7;

    explicit HuffmanEntry(int word) : word_(word) {}

    std::int32_t word_ = 0;
};

// Several codes at once, for skipping: the bits and coefficients of all codes that fit in the lookup. The lowest bits
// of the word are as above.
class HuffmanStride {
public:
    HuffmanStride() = default;
    HuffmanStride(unsigned bits, int coefficients, bool is_eob)
        : word_(static_cast<std::uint16_t>(bits | (is_eob ? 1 << 7 : 0) | static_cast<unsigned>(coefficients) << 8)) {}

    bool is_known() const { return word_ != 0; }
    bool is_eob() const { return word_ & 1 << 7; }
    unsigned bits() const { return word_ & 63; }
    int coefficients() const { return word_ >> 8; }

private:
    std::uint16_t word_ = 0;
};

class HuffmanTable {
public:
    enum class Kind { dc, ac };
    static constexpr int lookup_bits = 11;

    // Build the table, unless it has been built from the same specification. Return false if libjpeg would refuse it.
    bool set(const HuffmanSpec &spec, Kind kind);

    // Look up the next lookup_bits of a stream. Unknown if the code is longer.
    HuffmanEntry operator[](std::uint64_t first) const { return lookup_[first]; }

    // Look up the same in an AC table, after make_strides.
    HuffmanStride stride(std::uint64_t first) const { return strides_[first]; }
    void make_strides();
    bool has_strides() const { return has_strides_; }

    // Whether two images in turn had this table, as it is with encoders that do not optimise their tables.
    bool is_repeated() const { return is_repeated_; }

    // Look up the next 16 bits of a stream, for a longer code. Unknown if the table lacks the code.
    HuffmanEntry long_code(std::uint32_t first) const;

private:
    bool build();
    void add(int code, int length, std::uint8_t symbol);
    HuffmanEntry entry_of(int length, std::uint8_t symbol) const;
    HuffmanStride stride_from(unsigned first) const;

    HuffmanEntry lookup_[1 << lookup_bits];
    HuffmanStride strides_[1 << lookup_bits];
    std::uint32_t limit_[17] = {};  // the first 16 bits after all codes of this length or shorter
    std::int32_t shift_[17] = {};   // from a code of this length to the index of its symbol
    Kind kind_ = Kind::dc;
    bool is_valid_ = false, has_strides_ = false, is_repeated_ = false;
    std::vector<std::uint8_t> spec_;
};

// Bytes of a segment that are made ready at a time.
#ifndef BUSHEL_JPEG_CHUNK
#define BUSHEL_JPEG_CHUNK 32768
#endif

// The bytes of a segment (between two restart markers) without the zeros that are stuffed after each 0xFF: a window
// that moves along the segment, so that a large one takes little memory. Padding follows the segment, so that a reader
// may run beyond its end.
class SegmentBits {
public:
    // Take the bytes up to the next marker, or to the end.
    void set(const std::uint8_t *data, std::size_t size);

    const std::uint8_t *begin() const { return begin_; }
    const std::uint8_t *end() const { return end_; }

    // A reader that is beyond this after an MCU has to call `go_on` before the next one.
    const std::uint8_t *limit() const { return limit_; }

    // Move the window so that it begins at `next`, and adjust that. Return false if the segment has ended before it.
    bool go_on(const std::uint8_t *&next);

    // Whether the window has the end of the segment, and bytes before the window.
    bool is_complete() const { return is_complete_; }
    std::ptrdiff_t dropped() const { return dropped_; }

    // Read up to the end, and return whether a marker is there. Bytes of the window are lost if it is not complete.
    bool ends_before_marker();

private:
    static constexpr std::size_t chunk = BUSHEL_JPEG_CHUNK;
    // More than an MCU can take: 6 blocks of 64 codes and values, of 16 and 15 bits, and what a reader reads ahead.
    static constexpr std::size_t margin = 2048;
    // Bytes after the end that a reader may read before it checks how far it has come.
    static constexpr std::size_t padding = 4096;

    void append();

    Buffer bytes_;
    const std::uint8_t *from_ = nullptr, *stop_ = nullptr;  // what has not been taken yet
    std::uint8_t *begin_ = nullptr, *end_ = nullptr;
    const std::uint8_t *limit_ = nullptr;
    std::ptrdiff_t dropped_ = 0;
    bool is_complete_ = false, is_before_marker_ = false;
};

// A position in a segment. `bits` holds the next `count` bits, leftmost first; more valid bits may follow them.
struct BitReader {
    const std::uint8_t *next = nullptr;
    std::uint64_t bits = 0;
    unsigned count = 0;

    // Make at least 56 bits available (Giesen, "Reading bits in far too many ways", part 3, variant 4).
    BUSHEL_VECTORS_INLINE void fill() {
        std::uint64_t word;
        std::memcpy(&word, next, sizeof word);
        bits |= __builtin_bswap64(word) >> count;
        next += (63 - count) >> 3;
        count |= 56;
    }
    BUSHEL_VECTORS_INLINE void skip(unsigned used) {
        bits <<= used;
        count -= used;
    }
    // Begin at a bit of the segment's first byte.
    void begin_at(const SegmentBits &segment, unsigned bit) {
        next = segment.begin(), bits = 0, count = 0;
        if (bit > 0) {
            bits = std::uint64_t{*next++} << (56 + bit);
            count = 8 - bit;
        }
    }
    BUSHEL_VECTORS_INLINE std::uint64_t first(unsigned wanted) const { return bits >> (64 - wanted); }

    // Bits of the window that are left; negative if the reader is beyond its end.
    std::ptrdiff_t left(const SegmentBits &segment) const {
        return (segment.end() - next) * 8 + static_cast<std::ptrdiff_t>(count);
    }

    // Bits of the segment that have been read.
    std::ptrdiff_t position(const SegmentBits &segment) const {
        return (segment.dropped() + (next - segment.begin())) * 8 - static_cast<std::ptrdiff_t>(count);
    }

    // Whether the reader stayed inside the segment and, at its end, a marker follows at once. After the last segment
    // libjpeg accepts bytes before the marker.
    bool is_valid(SegmentBits &segment, bool is_end, bool is_last) const {
        if (left(segment) < 0) return false;
        if (!is_end) return true;
        return (is_last || (segment.is_complete() && left(segment) < 8)) && segment.ends_before_marker();
    }
};

// A copy goes by reference, so that the reader itself can stay in registers.
BUSHEL_VECTORS_INLINE bool go_on(BitReader &reader, SegmentBits &bits) {
    const std::uint8_t *next = reader.next;
    const bool is_inside = bits.go_on(next);
    reader.next = next;
    return is_inside;
}

// From zigzag order to natural order. Runs beyond the end lead to the last coefficient, as in libjpeg.
alignas(64) inline constexpr std::uint8_t natural_order[80] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

// Read the value of 1 to 15 bits that follows a code (ITU T.81, F.2.2.1).
BUSHEL_VECTORS_INLINE int take_value(BitReader &reader, unsigned size) {
    const auto value = static_cast<int>(reader.first(size));
    const int negative = static_cast<int>(~reader.bits >> 63);
    reader.skip(size);
    return value - (negative << size) + negative;
}

constexpr int bad_code = -1;

// Return the next code, of any length; unknown if the bits are not a code. The reader must be filled.
BUSHEL_VECTORS_INLINE HuffmanEntry next_code(const BitReader &reader, const HuffmanTable &table) {
    const HuffmanEntry entry = table[reader.first(HuffmanTable::lookup_bits)];
    return __builtin_expect(entry.is_known(), 1) ? entry
                                                 : table.long_code(static_cast<std::uint32_t>(reader.first(16)));
}

// Read the difference of a block's DC coefficient and add it to the prediction. Return false for an invalid code.
BUSHEL_VECTORS_INLINE bool take_dc(BitReader &reader, const HuffmanTable &table, int &dc_prediction) {
    reader.fill();
    const HuffmanEntry entry = next_code(reader, table);
    reader.skip(entry.bits());
    dc_prediction += entry.needs_value() ? take_value(reader, entry.value_bits()) : entry.value();
    return entry.is_known();
}

// The number of entries with a value for which one filling is enough.
constexpr int entries_per_fill = 4;

BUSHEL_VECTORS_INLINE void put(std::int16_t *block, int &number, HuffmanEntry entry) {
    number += entry.run();
    block[natural_order[number++]] = static_cast<std::int16_t>(entry.value());
}

// Take an entry without a value. Return true at the end of the block; then `number` is that of the last coefficient
// plus one, or bad_code.
BUSHEL_VECTORS_INLINE bool take_other(BitReader &reader, const HuffmanTable &table, HuffmanEntry entry,
                                      std::int16_t *block, int &number) {
    if (__builtin_expect(!entry.is_known(), 0)) {
        reader.fill();
        entry = table.long_code(static_cast<std::uint32_t>(reader.first(16)));
        if (!entry.is_known()) {
            number = bad_code;
            return true;
        }
    }
    reader.skip(entry.bits());
    if (entry.is_eob()) return true;
    number += entry.run();
    if (entry.needs_value()) {
        reader.fill();
        block[natural_order[number]] = static_cast<std::int16_t>(take_value(reader, entry.value_bits()));
    }
    return ++number >= 64;
}

// Read the AC coefficients of a block from `number` on (in zigzag order) into zeroed memory, in natural order. Return
// the number of the last one plus one, or bad_code.
BUSHEL_VECTORS_INLINE int take_ac(BitReader &reader, const HuffmanTable &table, std::int16_t *block, int number = 1) {
    while (true) {
        reader.fill();
        for (int i = 0; i < entries_per_fill; ++i) {
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

// Do the same for blocks of two segments at once. They are independent, so that the processor works on one while it
// waits for the other.
BUSHEL_VECTORS_INLINE void take_two_ac(BitReader &first, BitReader &second, const HuffmanTable &table,
                                       std::int16_t *first_block, std::int16_t *second_block, int &first_number,
                                       int &second_number) {
    int one = 1, two = 1;
    bool one_ends = false, two_ends = false;
    while (true) {
        first.fill();
        second.fill();
        HuffmanEntry one_entry, two_entry;
        int i = 0;
        for (; i < entries_per_fill; ++i) {
            one_entry = table[first.first(HuffmanTable::lookup_bits)];
            two_entry = table[second.first(HuffmanTable::lookup_bits)];
            if (!one_entry.has_value() || !two_entry.has_value()) break;
            first.skip(one_entry.bits());
            second.skip(two_entry.bits());
            put(first_block, one, one_entry);
            put(second_block, two, two_entry);
            if (one >= 64 || two >= 64) break;
        }
        if (i == entries_per_fill) continue;
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

// Skip one AC code and advance `number` (in zigzag order), to 64 or more at the end of the block. Return false for an
// invalid code.
BUSHEL_VECTORS_INLINE bool skip_code(BitReader &reader, const HuffmanTable &table, int &number) {
    const HuffmanEntry entry = next_code(reader, table);
    reader.skip(entry.bits() + (entry.needs_value() ? entry.value_bits() : 0));
    number = entry.is_eob() ? 64 : number + entry.run() + 1;
    return entry.is_known();
}

// Skip the next AC code, or, after make_strides, several at once.
template <bool Strides>
BUSHEL_VECTORS_INLINE bool skip_codes(BitReader &reader, const HuffmanTable &table, int &number) {
    reader.fill();
    if constexpr (Strides) {
        const HuffmanStride stride = table.stride(reader.first(HuffmanTable::lookup_bits));
        const int next = number + stride.coefficients();
        // Codes after the 64th coefficient belong to the next block.
        if (__builtin_expect(stride.is_known() && next <= 64 - stride.is_eob(), 1)) {
            reader.skip(stride.bits());
            number = stride.is_eob() ? 64 : next;
            return true;
        }
    }
    return skip_code(reader, table, number);
}

// Skip the AC codes of a block.
template <bool Strides>
BUSHEL_VECTORS_INLINE bool skip_ac(BitReader &reader, const HuffmanTable &table) {
    for (int number = 1; number < 64;) {
        if (!skip_codes<Strides>(reader, table, number)) return false;
    }
    return true;
}

// Do the same for blocks of two segments at once.
template <bool Strides>
BUSHEL_VECTORS_INLINE bool skip_two_ac(BitReader &first, BitReader &second, const HuffmanTable &table) {
    int one = 1, two = 1;
    do {
        const bool good = skip_codes<Strides>(first, table, one);
        if (!skip_codes<Strides>(second, table, two) || !good) return false;
    } while (one < 64 && two < 64);
    while (one < 64) {
        if (!skip_codes<Strides>(first, table, one)) return false;
    }
    while (two < 64) {
        if (!skip_codes<Strides>(second, table, two)) return false;
    }
    return true;
}

}  // namespace bushel
