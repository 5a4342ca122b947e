// Huffman codes of JPEG (ITU T.81 annexes C and F.2), looked up so that one step gives a coefficient whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jpeg_tables.hpp"

namespace bushel {

// What the next bits of a stream mean: a code, and the value behind it if that fits as well. The lowest six bits are how
// many bits are used up, so that a shift takes them from the entry as it is.
class HuffmanEntry {
public:
    HuffmanEntry() = default;
    // A code whose value, of so many bits, still follows it.
    static HuffmanEntry open(int bits, int run, int more) { return HuffmanEntry(bits | is_open_bit | run << 8 | more << 12); }
    // A code together with its value.
    static HuffmanEntry whole(int bits, int run, int value) { return HuffmanEntry(bits | run << 8 | value * 65536); }
    // An AC code without a value: 16 zeros, or nothing but zeros from here on.
    static HuffmanEntry zeros(int bits) { return HuffmanEntry(bits | 15 << 8); }
    static HuffmanEntry end(int bits) { return HuffmanEntry(bits | is_end_bit); }

    bool is_known() const { return word_ != 0; }  // no code is shorter than a bit
    bool is_open() const { return word_ & is_open_bit; }
    bool is_end() const { return word_ & is_end_bit; }
    bool has_value() const { return static_cast<std::uint32_t>(word_) >> 16; }  // one that is not 0
    int value() const { return word_ >> 16; }
    unsigned bits() const { return word_ & 63; }
    int run() const { return word_ >> 8 & 15; }
    unsigned more() const { return word_ >> 12 & 15; }  // bits of the value that follow

private:
    static constexpr int is_end_bit = 1 << 6, is_open_bit = 1 << 7;

    explicit HuffmanEntry(int word) : word_(word) {}

    std::int32_t word_ = 0;
};

// How far the next codes lead, as many as fit, when their values do not matter. The lowest bits are as above.
class HuffmanStride {
public:
    HuffmanStride() = default;
    HuffmanStride(unsigned bits, int coefficients, bool is_end)
        : word_(static_cast<std::uint16_t>(bits | (is_end ? 1 << 7 : 0) | static_cast<unsigned>(coefficients) << 8)) {}

    bool is_known() const { return word_ != 0; }
    bool is_end() const { return word_ & 1 << 7; }
    unsigned bits() const { return word_ & 63; }
    int coefficients() const { return word_ >> 8; }

private:
    std::uint16_t word_ = 0;
};

class HuffmanTable {
public:
    enum class Kind { dc, ac };
    static constexpr int lookup_bits = 11;

    // Makes the table, unless it is that of this code already. False if libjpeg would refuse the code.
    bool set(const HuffmanSpec &spec, Kind kind);

    // By the first lookup_bits of a stream; unknown when the code is longer.
    HuffmanEntry operator[](std::uint64_t first) const { return lookup_[first]; }

    // Of an AC table, by the first lookup_bits of a stream, once they are made.
    HuffmanStride stride(std::uint64_t first) const { return strides_[first]; }
    void make_strides();

    // By the first 16 bits of a stream, for a code that is longer. Unknown when there is no such code.
    HuffmanEntry longer(std::uint32_t first) const;

private:
    bool build();
    void add(int code, int length, std::uint8_t symbol);
    HuffmanEntry entry_of(int length, std::uint8_t symbol) const;
    HuffmanStride stride_from(unsigned first) const;

    HuffmanEntry lookup_[1 << lookup_bits];
    HuffmanStride strides_[1 << lookup_bits];
    std::uint32_t limit_[17] = {};  // the first 16 bits behind all codes of this length or shorter
    std::int32_t shift_[17] = {};   // from a code of this length to the place of its symbol
    Kind kind_ = Kind::dc;
    bool good_ = false, has_strides_ = false;
    std::vector<std::uint8_t> spec_;
};

}  // namespace bushel
