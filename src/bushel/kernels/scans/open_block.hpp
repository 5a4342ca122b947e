// A block of lines that was checked: its arrays, and the values of samples.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/cache.hpp"
#include "scans/line_blocks.hpp"

namespace bushel {

constexpr std::uint32_t bit(ValueKind kind) { return std::uint32_t{1} << static_cast<int>(kind); }
inline constexpr std::uint32_t absent_kinds = bit(ValueKind::none) | bit(ValueKind::null);
inline constexpr std::uint32_t quoted_kinds = bit(ValueKind::quoted) | bit(ValueKind::escaped);
inline constexpr std::uint32_t number_kinds = bit(ValueKind::no) | bit(ValueKind::yes) | bit(ValueKind::integer) |
                                              bit(ValueKind::unsigned_integer) | bit(ValueKind::real);
inline constexpr std::size_t longest_chain = 4;  // fields whose lengths must be added to find a value

[[noreturn]] inline void damaged(const char *what) { throw std::invalid_argument(std::string("a block of lines ") + what); }

template <typename T>
inline std::uint64_t element(const std::uint8_t *array, std::size_t i) {
    T value;
    std::memcpy(&value, array + i * sizeof(T), sizeof(T));
    return value;
}

// The sum, which wraps: elements may be anything.
inline std::int64_t sum(std::int64_t a, std::uint64_t b) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + b); }

// An array of a block, or the element that stands for all.
struct Elements {
    const std::uint8_t *array = nullptr;
    std::uint8_t width = 0;
    std::uint64_t same = 0;

    std::uint64_t operator[](std::size_t i) const {
        switch (width) {
            case 0:
                return same;
            case 1:
                return array[i];
            case 2:
                return element<std::uint16_t>(array, i);
            case 4:
                return element<std::uint32_t>(array, i);
            default:
                return element<std::uint64_t>(array, i);
        }
    }

    // Add elements from one on to the values of `out`.
    void add_to(std::int64_t *out, std::size_t first, std::size_t count) const {
        const auto add = [&](auto zero) {
            using T = decltype(zero);
            for (std::size_t i = 0; i < count; ++i) out[i] = sum(out[i], element<T>(array, first + i));
        };
        if (width == 0) {
            for (std::size_t i = 0; i < count; ++i) out[i] = sum(out[i], same);
        } else if (width == 1) {
            add(std::uint8_t{});
        } else if (width == 2) {
            add(std::uint16_t{});
        } else if (width == 4) {
            add(std::uint32_t{});
        } else {
            add(std::uint64_t{});
        }
    }
};

// The arrays of a field.
struct FieldArrays {
    Elements number, kind;
    std::uint32_t kinds = bit(ValueKind::none);
    bool after = false;
    Elements place, length;

    bool is(std::uint32_t some, std::size_t i) const { return some >> (kind[i] & 31) & 1; }
};

// A block, and the arrays of a field and of those that its places count from: the first one is the field itself. What
// a number needs is in one line of the cache.
class alignas(cache_line) OpenBlock {
public:
    // Check the bytes and find the arrays; `places` says whether the offsets of values are wanted.
    void open(const LineBlocks::Block &block, std::size_t field, bool places) {
        const auto [data, size, samples, row] = block;
        data_ = data;
        size_ = size;
        samples_ = samples;
        first_ = row;
        BlockHead head;
        if (size < sizeof head) damaged("is too small");
        std::memcpy(&head, data, sizeof head);
        const std::size_t heads = sizeof head + head.fields * sizeof(FieldHead);
        if (head.samples != samples || head.start < 0) damaged("has other samples");
        start_ = head.start;
        const bool known_width = head.start_width == 2 || head.start_width == 4 || head.start_width == 8;
        if (!known_width || heads > size || head.start_width * samples > size - heads) damaged("has too few lines");
        starts_ = {data + heads, static_cast<std::uint8_t>(head.start_width), 0};
        count_ = 1;
        if (field >= head.fields) {
            fields_[0] = FieldArrays{};
            return;
        }
        std::size_t first = field;
        while (true) {
            arrays_of(first, fields_[count_ - 1]);
            if (!places || !fields_[count_ - 1].after) break;
            if (!first || count_ == longest_chain) damaged("has a value with an unknown place");
            --first;
            ++count_;
        }
    }

    const FieldArrays &arrays() const { return fields_[0]; }

    std::int64_t value(LinePart part, bool quotes, std::size_t i) const {
        if (part == LinePart::number || part == LinePart::real) return number(part, i);
        const FieldArrays &arrays = this->arrays();
        const auto length = static_cast<std::int64_t>(arrays.length[i]);
        switch (part) {
            case LinePart::kind:
                return static_cast<std::int64_t>(arrays.kind[i]);
            case LinePart::length:
                return length - 1 - 2 * (!quotes && arrays.is(quoted_kinds, i));
            default:
                return length ? offset(!quotes && arrays.is(quoted_kinds, i), i) : 0;
        }
    }

    // Offset and length of a value.
    std::pair<std::int64_t, std::int64_t> extent(bool quotes, std::size_t i) const {
        const FieldArrays &arrays = this->arrays();
        const auto length = static_cast<std::int64_t>(arrays.length[i]);
        const bool trimmed = !quotes && arrays.is(quoted_kinds, i);
        return {length ? offset(trimmed, i) : 0, length - 1 - 2 * trimmed};
    }

    // A part that is a number.
    std::int64_t number(LinePart part, std::size_t i) const {
        const FieldArrays &arrays = this->arrays();
        if (!arrays.is(number_kinds, i)) return 0;
        const auto bits = static_cast<std::int64_t>(arrays.number[i] | arrays.number.same);
        if (part == LinePart::number || !arrays.is(bit(ValueKind::integer), i)) return bits;
        const auto real = static_cast<double>(bits);
        std::int64_t real_bits;
        std::memcpy(&real_bits, &real, sizeof real);
        return real_bits;
    }

    // The first sample of the block.
    std::int64_t first() const { return first_; }

    // Load the bytes of a sample into the cache: where its value is, or which number.
    void load(bool extent, std::size_t i) const {
        const FieldArrays &arrays = this->arrays();
        load_element(arrays.kind, i);
        if (!extent) return load_element(arrays.number, i);
        load_element(starts_, i);
        for (std::size_t field = 0; field < count_; ++field) {
            load_element(fields_[field].place, i);
            load_element(fields_[field].length, i);
        }
    }

    // Write the values of samples from one on.
    void read(LinePart part, bool quotes, std::size_t first, std::size_t count, std::int64_t *out) const {
        const FieldArrays &arrays = this->arrays();
        const bool mixed = arrays.kind.width;
        const std::int64_t trimmed = !quotes && !mixed && arrays.is(quoted_kinds, 0);
        const bool plain = (!mixed || quotes || !(arrays.kinds & quoted_kinds)) && !(arrays.kinds & absent_kinds);
        if (part == LinePart::kind) {
            fill(out, count, 0);
            arrays.kind.add_to(out, first, count);
        } else if (part == LinePart::length && plain) {
            fill(out, count, -1 - 2 * trimmed);
            arrays.length.add_to(out, first, count);
        } else if (part == LinePart::offset && plain) {
            fill(out, count, start_ + trimmed);
            starts_.add_to(out, first, count);
            arrays.place.add_to(out, first, count);
            for (std::size_t before = 1; before < count_; ++before) {
                fields_[before].place.add_to(out, first, count);
                fields_[before].length.add_to(out, first, count);
            }
        } else if (plain && (part == LinePart::number || arrays.kinds == bit(ValueKind::real))) {
            fill(out, count, static_cast<std::int64_t>(arrays.number.width ? arrays.number.same : 0));
            arrays.number.add_to(out, first, count);
        } else {
            for (std::size_t i = 0; i < count; ++i) out[i] = value(part, quotes, first + i);
        }
    }

private:
    std::int64_t offset(bool trimmed, std::size_t i) const {
        std::uint64_t place = starts_[i] + arrays().place[i] + trimmed;
        for (std::size_t before = 1; before < count_; ++before) {
            place += fields_[before].place[i] + fields_[before].length[i];
        }
        return sum(start_, place);
    }

    static void load_element(const Elements &elements, std::size_t i) {
        if (elements.width) load_line(elements.array + i * elements.width);
    }

    static void fill(std::int64_t *out, std::size_t count, std::int64_t value) { std::fill_n(out, count, value); }

    void arrays_of(std::size_t field, FieldArrays &arrays) const {
        FieldHead head;
        std::memcpy(&head, data_ + sizeof(BlockHead) + field * sizeof head, sizeof head);
        constexpr std::uint32_t widths = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4;
        const bool has_known_widths = head.kind_width <= 1 && head.place_width <= 4 && widths >> head.place_width & 1 &&
                           head.length_width <= 4 && widths >> head.length_width & 1 && head.number_width <= 8 &&
                           (widths | 1 << 8) >> head.number_width & 1;
        const std::size_t bytes = std::size_t{head.kind_width} + head.place_width + head.length_width + head.number_width;
        if (!has_known_widths || head.arrays > size_ || bytes * samples_ > size_ - head.arrays) damaged("is too small");
        const std::uint8_t *at = data_ + head.arrays;
        const auto next = [&](std::uint8_t width, std::uint64_t same) {
            const Elements elements{at, width, same};
            at += width * samples_;
            return elements;
        };
        arrays.kind = next(head.kind_width, head.kind);
        arrays.place = next(head.place_width, head.place);
        arrays.length = next(head.length_width, head.length);
        arrays.number = next(head.number_width, head.number);
        arrays.kinds = head.kinds;
        arrays.after = head.after;
    }

    std::int64_t first_ = 0;
    FieldArrays fields_[longest_chain];
    Elements starts_;
    std::int64_t start_ = 0;
    const std::uint8_t *data_ = nullptr;
    std::size_t size_ = 0, samples_ = 0, count_ = 1;  // fields that are known
};

}  // namespace bushel
