#include "jpeg/entropy.hpp"

#include <algorithm>
#include <cstring>

namespace bushel {

namespace {

constexpr std::size_t lengths = 16;

// The value that `size` bits stand for (ITU T.81, figure F.12: EXTEND).
int extend(int bits, int size) { return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits; }

}  // namespace

bool HuffmanTable::set(const HuffmanSpec &spec, Kind kind) {
    const bool same =
        kind == kind_ && spec.size == spec_.size() && std::memcmp(spec.data, spec_.data(), spec.size) == 0;
    if (!same) {
        spec_.assign(spec.data, spec.data + spec.size);
        kind_ = kind;
        has_strides_ = false;
        is_valid_ = build();
    }
    is_repeated_ = same;
    return is_valid_;
}

// The entry of a code without its value, for a code that is too long for the lookup, or whose value is.
HuffmanEntry HuffmanTable::entry_of(int length, std::uint8_t symbol) const {
    if (kind_ == Kind::dc)
        return symbol ? HuffmanEntry::code_only(length, 0, symbol) : HuffmanEntry::with_value(length, 0, 0);
    const int run = symbol >> 4, size = symbol & 15;
    if (size > 0) return HuffmanEntry::code_only(length, run, size);
    return run == 15 ? HuffmanEntry::zrl(length) : HuffmanEntry::eob(length, run);
}

void HuffmanTable::add(int code, int length, std::uint8_t symbol) {
    const int run = kind_ == Kind::ac ? symbol >> 4 : 0, size = kind_ == Kind::ac ? symbol & 15 : symbol;
    const int room = lookup_bits - length;  // bits after the code
    if (room < 0) return;
    HuffmanEntry *entry = lookup_ + (code << room);
    if (size == 0 || size > room) {
        std::fill_n(entry, 1 << room, entry_of(length, symbol));
        return;
    }
    const int copies = 1 << (room - size);
    for (int bits = 0; bits < 1 << size; ++bits, entry += copies) {
        std::fill_n(entry, copies, HuffmanEntry::with_value(length + size, run, extend(bits, size)));
    }
}

bool HuffmanTable::build() {
    std::fill(std::begin(lookup_), std::end(lookup_), HuffmanEntry());
    const std::uint8_t *symbols = spec_.data() + lengths;
    int code = 0, number = 0;
    for (int length = 1; length <= static_cast<int>(lengths); ++length) {
        const int count = spec_[static_cast<std::size_t>(length - 1)];
        if (count > 0 && code + count >= 1 << length) return false;  // a code of ones only is invalid
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
        const unsigned bits = entry.bits() + (entry.needs_value() ? entry.value_bits() : 0);
        if (!entry.is_known() || (used > 0 && used + bits > lookup_bits)) break;
        used += bits;
        if (entry.is_eob()) return {used, coefficients, true};
        coefficients += entry.run() + 1;
        if (used >= lookup_bits) break;
    }
    return used ? HuffmanStride(used, coefficients, false) : HuffmanStride();
}

HuffmanEntry HuffmanTable::long_code(std::uint32_t first) const {
    for (int length = lookup_bits + 1; length <= static_cast<int>(lengths); ++length) {
        if (first >= limit_[length]) continue;
        const auto index = static_cast<std::size_t>(static_cast<int>(first >> (16 - length)) + shift_[length]);
        return entry_of(length, spec_[lengths + index]);
    }
    return {};
}

void SegmentBits::set(const std::uint8_t *data, std::size_t size) {
    from_ = data, stop_ = data + size;
    begin_ = end_ = bytes_.bytes(std::min(size, margin + chunk) + padding);
    dropped_ = 0;
    is_complete_ = is_before_marker_ = false;
    do append();
    while (begin_ > limit_ && !is_complete_);
}

bool SegmentBits::go_on(const std::uint8_t *&next) {
    if (is_complete_) return false;
    dropped_ += next - begin_;
    const auto kept = static_cast<std::size_t>(end_ - next);
    std::memmove(begin_, next, kept);
    end_ = begin_ + kept;
    next = begin_;
    do append();
    while (next > limit_ && !is_complete_);
    return next <= limit_;
}

bool SegmentBits::ends_before_marker() {
    while (!is_complete_) {
        end_ = begin_;
        append();
    }
    return is_before_marker_;
}

// Copy 32 bytes at a time up to the next 0xFF; on average there is one in some hundred bytes.
BUSHEL_VECTORS void SegmentBits::append() {
    constexpr std::size_t step = 32;
    const std::uint8_t *data = from_;
    const std::uint8_t *const pause = data + std::min(static_cast<std::size_t>(stop_ - data), chunk);
    std::uint8_t *out = end_;
    while (data < pause) {
        if (static_cast<std::size_t>(stop_ - data) < step) {
            const std::uint8_t byte = *data++;
            *out++ = byte;
            if (byte != 0xFF) continue;
        } else {
            const vectors::Vector bytes = vectors::load(data);
            vectors::store(out, bytes);
            const auto found = static_cast<std::size_t>(vectors::find_byte(bytes, 0xFF));
            const std::size_t plain = std::min(found + 1, step);
            data += plain, out += plain;
            if (found == step) continue;
        }
        if (data < stop_ && *data == 0) {
            ++data;
            continue;
        }
        --out;
        while (data < stop_ && *data == 0xFF) ++data;    // fill bytes
        is_before_marker_ = data < stop_ && *data != 0;  // FF FF 00 is not a marker: left to libjpeg
        data = stop_;
    }
    from_ = data, end_ = out;
    is_complete_ = data == stop_;
    if (is_complete_) std::memset(out, 0, 64);
    limit_ = is_complete_ ? out + sizeof(std::uint64_t) : out - margin;
}

}  // namespace bushel
