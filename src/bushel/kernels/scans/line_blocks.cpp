// Blocks of lines: the arrays of a field are as narrow as its values allow, and a value that always follows the value of
// the field before in the same way has no place at all.
#include "scans/line_blocks.hpp"

#include "common/cache.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace bushel {

namespace {

constexpr std::uint32_t bit(ValueKind kind) { return std::uint32_t{1} << static_cast<int>(kind); }
constexpr std::uint32_t absent_kinds = bit(ValueKind::none) | bit(ValueKind::null);
constexpr std::uint32_t quoted_kinds = bit(ValueKind::quoted) | bit(ValueKind::escaped);
constexpr std::uint32_t number_kinds = bit(ValueKind::no) | bit(ValueKind::yes) | bit(ValueKind::integer) |
                                       bit(ValueKind::unsigned_integer) | bit(ValueKind::real);
constexpr std::size_t longest_chain = 4;  // fields whose lengths must be added to find a value

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

    Dense of(const FieldValues &own, std::size_t samples) {
        const auto first = static_cast<std::size_t>(own.first());
        const auto fill = [&](auto &to, const auto *from) {
            to.assign(samples, 0);
            std::copy_n(from, own.size(), to.begin() + static_cast<std::ptrdiff_t>(first));
        };
        fill(place, own.place()), fill(length, own.length()), fill(kind, own.kind()), fill(number, own.number());
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

void add_integers(const Dense &own, std::uint32_t kinds, std::size_t count, FieldFacts &facts) {
    constexpr std::int64_t exact = std::int64_t{1} << 53;
    for (std::size_t i = 0; i < count; ++i) {
        if (kinds != bit(ValueKind::integer) && own.kind[i] != static_cast<std::uint8_t>(ValueKind::integer)) continue;
        facts.negative |= own.number[i] < 0;
        facts.inexact |= own.number[i] > exact || own.number[i] < -exact;
    }
}

void encode_numbers(const Dense &own, std::size_t count, FieldHead &head, FieldFacts &facts) {
    if (!(head.kinds & number_kinds)) return;
    const Bits bits = bits_of(reinterpret_cast<const std::uint64_t *>(own.number), count);
    head.number_width = width_of(bits.differ);
    head.number = static_cast<std::uint64_t>(own.number[0]) & ~low_bits(head.number_width);
    if (head.kinds & bit(ValueKind::integer) && bits.any >> 53) add_integers(own, head.kinds, count, facts);
}

// Whether the values of a field all follow the values of the field before by the same number of bytes.
bool follows(const Dense &own, const Dense &before, std::size_t count) {
    const std::uint32_t first = own.place[0] - before.place[0] - before.length[0];
    std::uint32_t differ = 0;
    for (std::size_t i = 0; i < count; ++i) differ |= (own.place[i] - before.place[i] - before.length[i]) ^ first;
    return !differ && first < std::uint32_t{1} << 31;
}

[[noreturn]] void damaged(const char *what) { throw std::invalid_argument(std::string("a block of lines ") + what); }

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
            const bool dense = !values_of.first() && values_of.size() == samples;
            const Dense own = dense ? Dense{values_of.place(), values_of.length(), values_of.kind(), values_of.number()}
                                    : copy.of(values_of, samples);
            head.kinds = static_cast<std::uint16_t>(kinds_of(own.kind, samples));
            head.kind = own.kind[0];
            head.kind_width = head.kinds & (head.kinds - 1) ? 1 : 0;
            head.length = own.length[0];
            const Bits lengths = bits_of(own.length, samples);
            head.length_width = lengths.differ ? width_of(lengths.any) : 0;
            whole = !(head.kinds & absent_kinds);
            head.after = whole && chain < longest_chain && follows(own, before, samples);
            if (head.after) {
                head.place = own.place[0] - before.place[0] - before.length[0];
                ++chain;
            } else {
                const Bits bits = bits_of(own.place, samples);
                head.place = own.place[0];
                head.place_width = bits.differ ? width_of(bits.any) : 0;
                chain = 1;
            }
            encode_numbers(own, samples, head, facts[field]);
            append(out, head.kind_width, own.kind, samples);
            append(out, head.place_width, own.place, samples);
            append(out, head.length_width, own.length, samples);
            append(out, head.number_width, own.number, samples);
            before = own;
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
}

// Blocks have about the same number of samples, so the guess is rarely wrong by more than one.
std::size_t LineBlocks::block_of(std::int64_t row) const {
    const double share = static_cast<double>(row) / static_cast<double>(samples());
    std::size_t guess = std::min(static_cast<std::size_t>(share * static_cast<double>(blocks_)), blocks_ - 1);
    for (int left = 4; left; --left) {
        if (row < first_[guess]) {
            --guess;
        } else if (row >= first_[guess + 1]) {
            ++guess;
        } else {
            return guess;
        }
    }
    return static_cast<std::size_t>(std::upper_bound(first_, first_ + blocks_, row) - first_) - 1;
}

namespace {

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
    Elements kind, place, length, number;
    std::uint32_t kinds = bit(ValueKind::none);
    bool after = false;

    bool is(std::uint32_t some, std::size_t i) const { return some >> (kind[i] & 31) & 1; }
};

// A block, and the arrays of a field and of those that its places count from: the last one is the field itself.
class OpenBlock {
public:
    void open(const std::uint8_t *data, std::size_t size, std::size_t samples, std::size_t field, bool places) {
        data_ = data;
        size_ = size;
        samples_ = samples;
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
            fields_[longest_chain - 1] = FieldArrays{};
            return;
        }
        std::size_t first = field;
        while (true) {
            arrays_of(first, fields_[longest_chain - count_]);
            if (!places || !fields_[longest_chain - count_].after) break;
            if (!first || count_ == longest_chain) damaged("has a value with an unknown place");
            --first;
            ++count_;
        }
    }

    const FieldArrays &own() const { return fields_[longest_chain - 1]; }

    std::int64_t value(LinePart part, bool quotes, std::size_t i) const {
        const FieldArrays &own = this->own();
        const auto length = static_cast<std::int64_t>(own.length[i]);
        switch (part) {
            case LinePart::kind:
                return static_cast<std::int64_t>(own.kind[i]);
            case LinePart::length:
                return length - 1 - 2 * (!quotes && own.is(quoted_kinds, i));
            case LinePart::offset: {
                if (!length) return 0;
                std::uint64_t place = starts_[i] + own.place[i] + (!quotes && own.is(quoted_kinds, i));
                for (std::size_t before = longest_chain - count_; before + 1 < longest_chain; ++before) {
                    place += fields_[before].place[i] + fields_[before].length[i];
                }
                return sum(start_, place);
            }
            default:
                return number(part, i);
        }
    }

    // Load the bytes of a sample into the cache.
    void load(std::size_t i) const {
        load_line(starts_.array + i * starts_.width);
        for (std::size_t field = longest_chain - count_; field < longest_chain; ++field) {
            for (const Elements *each : {&fields_[field].kind, &fields_[field].place, &fields_[field].length, &fields_[field].number}) {
                if (each->width) load_line(each->array + i * each->width);
            }
        }
    }

    // Write the values of samples from one on.
    void read(LinePart part, bool quotes, std::size_t first, std::size_t count, std::int64_t *out) const {
        const FieldArrays &own = this->own();
        const bool mixed = own.kind.width;
        const std::int64_t trimmed = !quotes && !mixed && own.is(quoted_kinds, 0);
        const bool plain = (!mixed || quotes || !(own.kinds & quoted_kinds)) && !(own.kinds & absent_kinds);
        if (part == LinePart::kind) {
            fill(out, count, 0);
            own.kind.add_to(out, first, count);
        } else if (part == LinePart::length && plain) {
            fill(out, count, -1 - 2 * trimmed);
            own.length.add_to(out, first, count);
        } else if (part == LinePart::offset && plain) {
            fill(out, count, start_ + trimmed);
            starts_.add_to(out, first, count);
            own.place.add_to(out, first, count);
            for (std::size_t before = longest_chain - count_; before + 1 < longest_chain; ++before) {
                fields_[before].place.add_to(out, first, count);
                fields_[before].length.add_to(out, first, count);
            }
        } else if (plain && (part == LinePart::number || own.kinds == bit(ValueKind::real))) {
            fill(out, count, static_cast<std::int64_t>(own.number.width ? own.number.same : 0));
            own.number.add_to(out, first, count);
        } else {
            for (std::size_t i = 0; i < count; ++i) out[i] = value(part, quotes, first + i);
        }
    }

private:
    static void fill(std::int64_t *out, std::size_t count, std::int64_t value) { std::fill_n(out, count, value); }

    std::int64_t number(LinePart part, std::size_t i) const {
        const FieldArrays &own = this->own();
        if (!own.is(number_kinds, i)) return 0;
        const auto bits = static_cast<std::int64_t>(own.number[i] | own.number.same);
        if (part == LinePart::number || !own.is(bit(ValueKind::integer), i)) return bits;
        const auto real = static_cast<double>(bits);
        std::int64_t real_bits;
        std::memcpy(&real_bits, &real, sizeof real);
        return real_bits;
    }

    void arrays_of(std::size_t field, FieldArrays &found) const {
        FieldHead head;
        std::memcpy(&head, data_ + sizeof(BlockHead) + field * sizeof head, sizeof head);
        constexpr std::uint32_t widths = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4;
        const bool known = head.kind_width <= 1 && head.place_width <= 4 && widths >> head.place_width & 1 &&
                           head.length_width <= 4 && widths >> head.length_width & 1 && head.number_width <= 8 &&
                           (widths | 1 << 8) >> head.number_width & 1;
        const std::size_t bytes = std::size_t{head.kind_width} + head.place_width + head.length_width + head.number_width;
        if (!known || head.arrays > size_ || bytes * samples_ > size_ - head.arrays) damaged("is too small");
        const std::uint8_t *at = data_ + head.arrays;
        const auto next = [&](std::uint8_t width, std::uint64_t same) {
            const Elements elements{at, width, same};
            at += width * samples_;
            return elements;
        };
        found.kind = next(head.kind_width, head.kind);
        found.place = next(head.place_width, head.place);
        found.length = next(head.length_width, head.length);
        found.number = next(head.number_width, head.number);
        found.kinds = head.kinds;
        found.after = head.after;
    }

    const std::uint8_t *data_;
    std::size_t size_, samples_, count_ = 1;  // fields that are known, the last ones of `fields_`
    std::int64_t start_ = 0;
    Elements starts_;
    FieldArrays fields_[longest_chain];
};

}  // namespace

void LineBlocks::read(std::size_t field, LinePart part, bool quotes, std::int64_t row, std::size_t count,
                      std::int64_t *out) const {
    if (row < 0 || row > samples() || count > static_cast<std::size_t>(samples() - row)) {
        throw std::out_of_range("samples that do not exist");
    }
    for (std::size_t number = count ? block_of(row) : 0; count; ++number) {
        const auto samples = static_cast<std::size_t>(first_[number + 1] - first_[number]);
        OpenBlock block;
        block.open(data_ + at_[number], static_cast<std::size_t>(at_[number + 1] - at_[number]), samples, field,
                   part == LinePart::offset);
        const auto first = static_cast<std::size_t>(row - first_[number]);
        const std::size_t own = std::min(count, samples - first);
        block.read(part, quotes, first, own, out);
        row += static_cast<std::int64_t>(own);
        out += own;
        count -= own;
    }
}

// Samples are in any order, so each of their bytes misses the cache: the bytes of some samples are loaded at once.
template <typename Put>
void LineBlocks::each(std::size_t field, bool places, const std::int64_t *rows, std::size_t count, Put put) const {
    constexpr std::size_t together = 16;
    OpenBlock blocks[together];
    std::size_t numbers[together];
    for (std::size_t first = 0; first < count; first += together) {
        const std::size_t some = std::min(together, count - first);
        for (std::size_t i = 0; i < some; ++i) {
            const std::int64_t row = rows[first + i];
            if (row < 0 || row >= samples()) throw std::out_of_range("samples that do not exist");
            numbers[i] = block_of(row);
            const std::uint8_t *const head = data_ + at_[numbers[i]];
            load_line(head);
            load_line(head + sizeof(BlockHead) + field * sizeof(FieldHead));
        }
        for (std::size_t i = 0; i < some; ++i) {
            const std::size_t number = numbers[i];
            if (i && number == numbers[i - 1]) {
                blocks[i] = blocks[i - 1];
            } else {
                blocks[i].open(data_ + at_[number], static_cast<std::size_t>(at_[number + 1] - at_[number]),
                               static_cast<std::size_t>(first_[number + 1] - first_[number]), field, places);
            }
            if (count > 1) blocks[i].load(static_cast<std::size_t>(rows[first + i] - first_[number]));
        }
        for (std::size_t i = 0; i < some; ++i) {
            put(blocks[i], first + i, static_cast<std::size_t>(rows[first + i] - first_[numbers[i]]));
        }
    }
}

void LineBlocks::take(std::size_t field, LinePart part, bool quotes, const std::int64_t *rows, std::size_t count,
                      std::int64_t *out) const {
    each(field, part == LinePart::offset, rows, count,
         [&](const OpenBlock &block, std::size_t i, std::size_t row) { out[i] = block.value(part, quotes, row); });
}

void LineBlocks::extents(std::size_t field, bool quotes, const std::int64_t *rows, std::size_t count, std::int64_t *offset,
                         std::int64_t *length) const {
    each(field, true, rows, count, [&](const OpenBlock &block, std::size_t i, std::size_t row) {
        offset[i] = block.value(LinePart::offset, quotes, row);
        length[i] = block.value(LinePart::length, quotes, row);
    });
}

}  // namespace bushel
