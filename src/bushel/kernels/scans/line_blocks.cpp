// Blocks of lines: the arrays of a field are as narrow as its values allow, and a value that always follows the value of
// the field before in the same way has no place at all.
#include "scans/line_blocks.hpp"

#include "scans/open_block.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace bushel {

namespace {

std::uint8_t width_of(std::uint64_t bits) { return bits == 0 ? 0 : bits < 1 << 8 ? 1 : bits < 1 << 16 ? 2 : bits >> 32 ? 8 : 4; }

std::uint64_t low_bits(std::uint8_t width) { return width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * width) - 1; }

// The values of a field, one for each sample.
struct Dense {
    const std::uint32_t *place, *length;
    const std::uint8_t *kind;
    const std::int64_t *number;
};

// Copies of values, where samples at the start or the end of a block lack the field.
struct Padded {
    std::vector<std::uint32_t> place, length;
    std::vector<std::uint8_t> kind;
    std::vector<std::int64_t> number;

    Dense of(const FieldValues &values, std::size_t samples) {
        const auto first = static_cast<std::size_t>(values.first());
        const auto fill = [&](auto &to, const auto *from) {
            to.assign(samples, 0);
            std::copy_n(from, values.size(), to.begin() + static_cast<std::ptrdiff_t>(first));
        };
        fill(place, values.place());
        fill(length, values.length());
        fill(kind, values.kind());
        fill(number, values.number());
        return {place.data(), length.data(), kind.data(), number.data()};
    }
};

// Append the low bytes of values.
template <typename To, typename From>
void append(std::vector<std::uint8_t> &out, const From *from, std::size_t count, std::uint64_t less = 0) {
    const std::size_t at = out.size();
    out.resize(at + count * sizeof(To));
    std::uint8_t *const to = out.data() + at;
    for (std::size_t i = 0; i < count; ++i) {
        const To value = static_cast<To>(static_cast<std::uint64_t>(from[i]) - less);
        std::memcpy(to + i * sizeof(To), &value, sizeof(To));
    }
}

template <typename From>
void append(std::vector<std::uint8_t> &out, std::uint8_t width, const From *from, std::size_t count,
            std::uint64_t less = 0) {
    if (width == 1) append<std::uint8_t>(out, from, count, less);
    if (width == 2) append<std::uint16_t>(out, from, count, less);
    if (width == 4) append<std::uint32_t>(out, from, count, less);
    if (width == 8) append<std::uint64_t>(out, from, count, less);
}

// The bits that differ between elements, and all bits that any has.
struct Bits {
    std::uint64_t differ = 0, any = 0;
};

template <typename T>
Bits bits_of(const T *values, std::size_t count) {
    T differ = 0, any = 0;
    for (std::size_t i = 0; i < count; ++i) {
        differ |= values[i] ^ values[0];
        any |= values[i];
    }
    return {static_cast<std::uint64_t>(differ), static_cast<std::uint64_t>(any)};
}

std::uint32_t kinds_of(const std::uint8_t *kind, std::size_t count) {
    std::uint32_t kinds = 0;
    for (std::size_t i = 0; i < count; ++i) {
        kinds |= std::uint32_t{1} << kind[i];
        const std::uint64_t same = kind[i] * std::uint64_t{0x0101010101010101};
        for (std::uint64_t next; i + 8 < count && (std::memcpy(&next, kind + i + 1, 8), next == same);) i += 8;
    }
    return kinds;
}

void add_integers(const Dense &column, std::uint32_t kinds, std::size_t count, FieldFacts &facts) {
    constexpr std::int64_t exact = std::int64_t{1} << 53;
    for (std::size_t i = 0; i < count; ++i) {
        const bool is_integer = column.kind[i] == static_cast<std::uint8_t>(ValueKind::integer);
        if (kinds != bit(ValueKind::integer) && !is_integer) continue;
        facts.negative |= column.number[i] < 0;
        facts.inexact |= column.number[i] > exact || column.number[i] < -exact;
    }
}

void encode_numbers(const Dense &column, std::size_t count, FieldHead &head, FieldFacts &facts) {
    if (!(head.kinds & number_kinds)) return;
    const Bits bits = bits_of(reinterpret_cast<const std::uint64_t *>(column.number), count);
    head.number_width = width_of(bits.differ);
    head.number = static_cast<std::uint64_t>(column.number[0]) & ~low_bits(head.number_width);
    if (head.kinds & bit(ValueKind::integer) && bits.any >> 53) add_integers(column, head.kinds, count, facts);
}

// Whether the values of a field all follow the values of the field before by the same number of bytes.
bool follows(const Dense &column, const Dense &before, std::size_t count) {
    const std::uint32_t first = column.place[0] - before.place[0] - before.length[0];
    std::uint32_t differ = 0;
    for (std::size_t i = 0; i < count; ++i) differ |= (column.place[i] - before.place[i] - before.length[i]) ^ first;
    return !differ && first < std::uint32_t{1} << 31;
}

}  // namespace

void encode_block(const std::vector<FieldValues> &values, const std::int64_t *starts, std::size_t samples,
                  std::vector<FieldFacts> &facts, std::vector<std::uint8_t> &out) {
    out.assign(sizeof(BlockHead) + values.size() * sizeof(FieldHead), 0);
    const auto last = samples ? static_cast<std::uint64_t>(starts[samples - 1] - starts[0]) : 0;
    const BlockHead block{static_cast<std::uint32_t>(samples), static_cast<std::uint32_t>(values.size()),
                          samples ? starts[0] : 0, std::max<std::uint8_t>(width_of(last), 2), 0};
    std::memcpy(out.data(), &block, sizeof block);
    append(out, static_cast<std::uint8_t>(block.start_width), starts, samples, static_cast<std::uint64_t>(block.start));
    Padded copy;
    Dense before{};
    std::size_t chain = longest_chain;  // fields since one that has places; `longest_chain`: no field can follow this one
    for (std::size_t field = 0; field < values.size(); ++field) {
        const FieldValues &values_of = values[field];
        FieldHead head{};
        head.arrays = static_cast<std::uint32_t>(out.size());
        head.kinds = bit(ValueKind::none);
        bool whole = false;
        if (values_of.size()) {
            Dense column{values_of.place(), values_of.length(), values_of.kind(), values_of.number()};
            if (values_of.first() || values_of.size() != samples) column = copy.of(values_of, samples);
            head.kinds = static_cast<std::uint16_t>(kinds_of(column.kind, samples));
            head.kind = column.kind[0];
            head.kind_width = head.kinds & (head.kinds - 1) ? 1 : 0;
            head.length = column.length[0];
            const Bits lengths = bits_of(column.length, samples);
            head.length_width = lengths.differ ? width_of(lengths.any) : 0;
            whole = !(head.kinds & absent_kinds);
            head.after = whole && chain < longest_chain && follows(column, before, samples);
            if (head.after) {
                head.place = column.place[0] - before.place[0] - before.length[0];
                ++chain;
            } else {
                const Bits bits = bits_of(column.place, samples);
                head.place = column.place[0];
                head.place_width = bits.differ ? width_of(bits.any) : 0;
                chain = 1;
            }
            encode_numbers(column, samples, head, facts[field]);
            append(out, head.kind_width, column.kind, samples);
            append(out, head.place_width, column.place, samples);
            append(out, head.length_width, column.length, samples);
            append(out, head.number_width, column.number, samples);
            before = column;
        }
        if (!whole) chain = longest_chain;
        facts[field].kinds |= head.kinds;
        std::memcpy(out.data() + sizeof block + field * sizeof head, &head, sizeof head);
    }
}

const std::vector<std::uint8_t> &LineScan::take() {
    FieldFacts lacked;
    lacked.kinds = taken_ ? bit(ValueKind::none) : 0;
    facts_.resize(names_.size(), lacked);
    encode_block(values_, starts_.data(), static_cast<std::size_t>(row_), facts_, block_);
    taken_ += row_;
    clear();
    return block_;
}

LineBlocks::LineBlocks(const std::uint8_t *data, std::size_t size, const std::int64_t *at, const std::int64_t *first,
                       std::size_t blocks)
    : data_(data), at_(at), first_(first), blocks_(blocks) {
    if (at[0] != 0 || first[0] != 0 || at[blocks] != static_cast<std::int64_t>(size)) damaged("is missing");
    for (std::size_t i = 0; i < blocks; ++i) {
        if (at[i + 1] < at[i] || first[i + 1] <= first[i]) damaged("is out of order");
    }
    share_ = blocks ? static_cast<double>(blocks) / static_cast<double>(first[blocks]) : 0;
}

std::size_t LineBlocks::block_near(std::int64_t row, std::size_t guess) const {
    if (guess && row < first_[guess] && row >= first_[guess - 1]) return guess - 1;
    if (guess + 1 < blocks_ && row >= first_[guess + 1] && row < first_[guess + 2]) return guess + 1;
    return static_cast<std::size_t>(std::upper_bound(first_, first_ + blocks_, row) - first_) - 1;
}

void LineBlocks::read(std::size_t field, LinePart part, bool quotes, std::int64_t row, std::size_t count,
                      std::int64_t *out) const {
    if (row < 0 || row > samples() || count > static_cast<std::size_t>(samples() - row)) {
        throw std::out_of_range("samples that do not exist");
    }
    for (std::size_t number = count ? block_of(row) : 0; count; ++number) {
        const Block bytes = block(number);
        OpenBlock block;
        block.open(bytes, field, part == LinePart::offset);
        const auto first = static_cast<std::size_t>(row - bytes.first);
        const std::size_t rows = std::min(count, bytes.samples - first);
        block.read(part, quotes, first, rows, out);
        row += static_cast<std::int64_t>(rows);
        out += rows;
        count -= rows;
    }
}

}  // namespace bushel
