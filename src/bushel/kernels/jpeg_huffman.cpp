#include "jpeg_huffman.hpp"

#include <algorithm>
#include <cstring>

namespace bushel {

namespace {

constexpr std::size_t lengths = 16;

// The number that so many bits stand for (ITU T.81, figure F.12).
int extended(int bits, int size) { return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits; }

}  // namespace

bool HuffmanTable::set(const HuffmanSpec &spec, Kind kind) {
    const bool same = kind == kind_ && spec.size == spec_.size() && std::memcmp(spec.data, spec_.data(), spec.size) == 0;
    if (!same) {
        spec_.assign(spec.data, spec.data + spec.size);
        kind_ = kind;
        has_strides_ = false;
        good_ = build();
    }
    return good_;
}

// A code that is longer than a lookup, or whose value does not fit in one.
HuffmanEntry HuffmanTable::entry_of(int length, std::uint8_t symbol) const {
    if (kind_ == Kind::dc) return symbol ? HuffmanEntry::open(length, 0, symbol) : HuffmanEntry::whole(length, 0, 0);
    const int run = symbol >> 4, size = symbol & 15;
    if (size > 0) return HuffmanEntry::open(length, run, size);
    return run == 15 ? HuffmanEntry::zeros(length) : HuffmanEntry::end(length);
}

void HuffmanTable::add(int code, int length, std::uint8_t symbol) {
    const int run = kind_ == Kind::ac ? symbol >> 4 : 0, size = kind_ == Kind::ac ? symbol & 15 : symbol;
    const int room = lookup_bits - length;  // bits behind the code
    if (room < 0) return;
    HuffmanEntry *entry = lookup_ + (code << room);
    if (size == 0 || size > room) {
        std::fill_n(entry, 1 << room, entry_of(length, symbol));
        return;
    }
    const int each = 1 << (room - size);
    for (int bits = 0; bits < 1 << size; ++bits, entry += each) {
        std::fill_n(entry, each, HuffmanEntry::whole(length + size, run, extended(bits, size)));
    }
}

bool HuffmanTable::build() {
    std::fill(std::begin(lookup_), std::end(lookup_), HuffmanEntry());
    const std::uint8_t *symbols = spec_.data() + lengths;
    int code = 0, number = 0;
    for (int length = 1; length <= static_cast<int>(lengths); ++length) {
        const int count = spec_[static_cast<std::size_t>(length - 1)];
        if (count > 0 && code + count >= 1 << length) return false;  // no code consists of ones only
        shift_[length] = number - code;
        for (int i = 0; i < count; ++i, ++code, ++number) {
            if (kind_ == Kind::dc && symbols[number] > 15) return false;
            add(code, length, symbols[number]);
        }
        limit_[length] = static_cast<std::uint32_t>(code) << (16 - length);
        code <<= 1;
    }
    return true;
}

void HuffmanTable::make_strides() {
    if (has_strides_) return;
    for (unsigned first = 0; first < 1 << lookup_bits; ++first) strides_[first] = stride_from(first);
    has_strides_ = true;
}

HuffmanStride HuffmanTable::stride_from(unsigned first) const {
    constexpr unsigned mask = (1 << lookup_bits) - 1;
    unsigned used = 0;
    int coefficients = 0;
    while (true) {
        const HuffmanEntry entry = lookup_[first << used & mask];
        const unsigned bits = entry.bits() + (entry.is_open() ? entry.more() : 0);
        if (!entry.is_known() || (used > 0 && used + bits > lookup_bits)) break;
        used += bits;
        if (entry.is_end()) return {used, coefficients, true};
        coefficients += entry.run() + 1;
        if (used >= lookup_bits) break;
    }
    return used ? HuffmanStride(used, coefficients, false) : HuffmanStride();
}

HuffmanEntry HuffmanTable::longer(std::uint32_t first) const {
    for (int length = lookup_bits + 1; length <= static_cast<int>(lengths); ++length) {
        if (first >= limit_[length]) continue;
        const auto place = static_cast<std::size_t>(static_cast<int>(first >> (16 - length)) + shift_[length]);
        return entry_of(length, spec_[lengths + place]);
    }
    return {};
}

}  // namespace bushel
