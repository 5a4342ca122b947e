// Lines with vectors. Bytes are looked at in blocks of 64; masks say where quotes, backslashes and others are. A
// line that is not as lines usually are is left to the code that goes byte by byte: names with escapes, and all mistakes.
#include <algorithm>
#include <cstring>

#include "common/vectors.hpp"
#include "scans/blocks.hpp"
#include "scans/fast_numbers.hpp"
#include "scans/lines.hpp"

namespace bushel {

namespace {

// The bytes after backslashes that are not escaped themselves; the block does not begin with such a byte.
inline std::uint64_t escaped_bytes(std::uint64_t backslashes) {
    constexpr std::uint64_t even = 0x5555555555555555;
    const std::uint64_t starts = backslashes & ~(backslashes << 1);
    // An addition carries the start of a run of backslashes to the byte after it, which an odd run escapes.
    const std::uint64_t behind_even = ((backslashes + (starts & even)) & ~backslashes) & ~even;
    const std::uint64_t behind_odd = ((backslashes + (starts & ~even)) & ~backslashes) & even;
    return behind_even | behind_odd;
}

// Whether the last byte of a block is a backslash that escapes the next byte.
inline bool escapes_next(std::uint64_t backslashes) {
    return ~backslashes ? __builtin_clzll(~backslashes) % 2 : false;  // 64 backslashes are 32 pairs
}

// Return the quote that ends a string of JSON whose bytes before `at` have no end; nullptr if the line ends before it.
BUSHEL_VECTORS __attribute__((noinline)) const std::uint8_t *end_of_escaped(const std::uint8_t *at, const std::uint8_t *end) {
    while (true) {
        const Block block = block_at(at, end);
        const std::uint64_t backslashes = mask_of(block, '\\'), line_ends = mask_of(block, '\n');
        const std::uint64_t quotes = mask_of(block, '"') & ~escaped_bytes(backslashes);
        if (const std::uint64_t stops = quotes | line_ends) {
            const int stop = lowest(stops);
            return line_ends >> stop & 1 ? nullptr : at + stop;
        }
        at += block_size;
        if (escapes_next(backslashes) && *at++ == '\n') return nullptr;
    }
}

// The quotes, backslashes and line ends.
BUSHEL_VECTORS_INLINE vectors::Vector string_stops(vectors::Vector bytes) {
    using namespace vectors;
    return bits_or(bits_or(equal_8(bytes, all_8('"')), equal_8(bytes, all_8('\\'))), equal_8(bytes, all_8('\n')));
}

// Return the quote that ends the string of JSON whose first byte is at `at`; nullptr if the line ends before it.
BUSHEL_VECTORS_INLINE const std::uint8_t *end_of_string(const std::uint8_t *at, const std::uint8_t *end,
                                                        bool &escaped) {
    while (true) {
        const Block block = block_at(at, end);
        if (const std::uint64_t stops = mask_of(Block{string_stops(block.first), string_stops(block.second)})) {
            at += lowest(stops);
            if (*at == '"') return at;
            if (*at == '\n') return nullptr;
            escaped = true;
            return end_of_escaped(at, end);
        }
        at += block_size;
    }
}

// Return the end of the object or list that begins at `at`; nullptr if its line ends before, or if there is a backslash
// outside of a string.
BUSHEL_VECTORS_INLINE const std::uint8_t *end_of_value(const std::uint8_t *at, const std::uint8_t *end) {
    std::int64_t depth = 0;
    std::uint64_t carried = 0;  // all bits: the block begins in a string
    const vectors::Vector small = vectors::all_8(0x20);
    while (true) {
        const Block block = block_at(at, end);
        const std::uint64_t backslashes = mask_of(block, '\\'), line_ends = mask_of(block, '\n');
        std::uint64_t quotes = mask_of(block, '"');
        if (backslashes) quotes &= ~escaped_bytes(backslashes);
        const std::uint64_t in_string = odd_up_to(quotes) ^ carried;
        if (backslashes & ~in_string) return nullptr;
        const Block braces{vectors::bits_or(block.first, small), vectors::bits_or(block.second, small)};
        const std::uint64_t inside = (line_ends ? below(lowest(line_ends)) : ~std::uint64_t{0}) & ~in_string;
        const std::uint64_t opened = mask_of(braces, '{') & inside;  // '[' became '{', and ']' became '}'
        const std::uint64_t closed = mask_of(braces, '}') & inside;
        if (__builtin_popcountll(closed) < depth) {
            depth += __builtin_popcountll(opened) - __builtin_popcountll(closed);
        } else {
            std::int64_t ended = 0;
            for (std::uint64_t ends = closed; ends; ends &= ends - 1) {
                const int stop = lowest(ends);
                if (depth + __builtin_popcountll(opened & below(stop)) == ++ended) return at + stop + 1;
            }
            depth += __builtin_popcountll(opened) - ended;
        }
        if (line_ends) return nullptr;
        carried = in_string >> 63 ? ~std::uint64_t{0} : 0;
        at += block_size;
        if (escapes_next(backslashes) && *at++ == '\n') return nullptr;
    }
}

inline const std::uint8_t *skip_spaces(const std::uint8_t *at) {  // a line end follows
    while (is_space(*at)) ++at;
    return at;
}

}  // namespace

// Lines usually have the same names in the same order as the line before. In a run of such lines, what names a field is
// compared, and its value goes to memory that is there. The values of other lines are added one by one.
struct FastLines {
    using Lead = LineScan::Lead;

    static constexpr std::size_t few_alike = 3, most_alike = 64;
    static constexpr std::int32_t short_run = 8;

    LineScan &scan;
    std::size_t alike = 0;   // lines in a row with the same names in the same order
    std::size_t places = 0;  // names of the last one
    std::size_t enough_alike = few_alike;  // before a run begins: more after short runs, which do not gain time

    // A value with its quotes. One that is null begins with its line, and has the length -1.
    struct Scanned {
        const std::uint8_t *begin;
        std::int64_t length, number;
        ValueKind kind;
    };

    // Return whether a lead is at `at`.
    BUSHEL_VECTORS_INLINE static bool is_at(const Lead &lead, const std::uint8_t *at, const std::uint8_t *end) {
        using namespace vectors;
        if (end - at < static_cast<std::ptrdiff_t>(Lead::longest)) return false;
        if (~mask_of(equal_8(load(at), load(lead.bytes))) & static_cast<std::uint32_t>(lead.mask)) return false;
        return lead.size <= 32 || !(~mask_of(equal_8(load(at + 32), load(lead.bytes + 32))) & lead.mask >> 32);
    }

    // Scan the name after the brace or comma at `at`, and return where its value begins; nullptr if it is unusual.
    BUSHEL_VECTORS __attribute__((noinline)) const std::uint8_t *name(const std::uint8_t *const begin,
                                                                      const std::uint8_t *end, std::size_t place,
                                                                      std::int64_t &field) {
        const std::uint8_t *at = skip_spaces(begin + 1);
        if (*at != '"') return nullptr;
        bool escaped = false;
        const std::uint8_t *const last = end_of_string(at + 1, end, escaped);
        if (!last || escaped) return nullptr;
        const std::uint8_t *const colon = skip_spaces(last + 1);
        if (*colon != ':') return nullptr;
        field = scan.field_of(at + 1, static_cast<std::size_t>(last - at - 1), place);
        if (field == -2) return nullptr;
        at = skip_spaces(colon + 1);
        if (place > scan.leads_.size()) return at;
        if (place == scan.leads_.size()) scan.leads_.emplace_back();
        scan.leads_[place].set(begin, static_cast<std::size_t>(at - begin), field);
        return at;
    }

    // Scan a value of a line, and return the byte after it; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *value(const std::uint8_t *line, const std::uint8_t *at,
                                                    const std::uint8_t *end, Scanned &scanned) const {
        const std::uint8_t first = *at;
        scanned.begin = at;
        scanned.number = 0;
        if (first == '"') {
            bool escaped = false;
            at = end_of_string(at + 1, end, escaped);
            if (!at) return nullptr;
            ++at;
            scanned.kind = escaped ? ValueKind::escaped : ValueKind::quoted;
        } else if (first <= '9') {
            NumberFound number;
            if (!fast_number(scan.data_, at, end, number)) return nullptr;
            at += number.size;
            scanned.kind = number.kind;
            scanned.number = number.bits;
        } else if (first == '{' || first == '[') {
            at = end_of_value(at, end);
            if (!at) return nullptr;
            scanned.kind = ValueKind::nested;
        } else {
            return word(line, at, end, scanned);
        }
        scanned.length = at - scanned.begin;
        return at;
    }

    // The same of a value that is a word.
    static const std::uint8_t *word(const std::uint8_t *line, const std::uint8_t *at, const std::uint8_t *end,
                                    Scanned &scanned) {
        const auto is = [&](const char *text, std::ptrdiff_t size) {
            return end - at >= size && !std::memcmp(at, text, static_cast<std::size_t>(size));
        };
        if (is("null", 4)) {
            scanned = {line, -1, 0, ValueKind::null};
            return at + 4;
        }
        if (is("true", 4)) {
            scanned = {at, 4, 1, ValueKind::yes};
        } else if (is("false", 5)) {
            scanned = {at, 5, 0, ValueKind::no};
        } else {
            const ParsedNumber number = parse_number(at, end);
            if (!number.size) return nullptr;
            scanned = {at, static_cast<std::int64_t>(number.size), number.bits, number.kind};
        }
        return at + scanned.length;
    }

    // Scan the rest of a line, which is after the value before a place, and return the byte after the line; nullptr if it
    // is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *rest(const std::uint8_t *at, const std::uint8_t *end, std::size_t place) {
        bool same = true;
        for (;; ++place) {
            if (place && *at != ',') {
                at = skip_spaces(at);
                if (*at == '}') break;
                if (*at != ',') return nullptr;
            }
            std::int64_t field;
            if (place < scan.leads_.size() && is_at(scan.leads_[place], at, end)) {
                field = scan.leads_[place].field;
                at += scan.leads_[place].size;
            } else {
                same = false;
                at = name(at, end, place, field);
                if (!at) return nullptr;
            }
            Scanned scanned;
            at = value(scan.line_, at, end, scanned);
            if (!at) return nullptr;
            if (field >= 0) scan.put(field, scanned.begin, scanned.length, scanned.kind, scanned.number);
        }
        at = skip_spaces(at + 1);
        if (*at != '\n') return nullptr;
        alike = same && place == places ? alike + 1 : 0;
        places = place;
        ++scan.row_;
        return at + 1;
    }

    // The values that are at a place in lines which are alike.
    FieldValues &values_at(std::size_t place) const {
        const std::int64_t field = scan.leads_[place].field;
        return field < 0 ? scan.unwanted_ : scan.values_[static_cast<std::size_t>(field)];
    }

    // Scan lines that are alike. Return where the first line that differs does so, and the number of places before that.
    BUSHEL_VECTORS __attribute__((noinline)) const std::uint8_t *run(const std::uint8_t *at, const std::uint8_t *end,
                                                                     std::size_t &place) {
        const std::size_t most = scan.rows_left(), count = places, before = static_cast<std::size_t>(scan.row_);
        scan.slots_.clear();
        for (place = 0; place < count; ++place) scan.slots_.push_back(values_at(place).slots(scan.row_, most));
        if (scan.starts_.size() < before + most) scan.starts_.resize(before + most);
        const FieldValues::Slots *const slots = scan.slots_.data();
        const Lead *const leads = scan.leads_.data();
        std::int64_t *const starts = scan.starts_.data() + before;
        std::size_t rows = 0;
        const std::uint8_t *line = at;
        for (place = 0; rows < most && at < end; ++rows, place = 0) {
            line = at;
            starts[rows] = line - scan.data_ + scan.start_;
            for (; place < count && is_at(leads[place], at, end); ++place) {
                Scanned scanned;
                const std::uint8_t *const next = value(line, at + leads[place].size, end, scanned);
                if (!next) break;
                slots[place].set(rows, scanned.begin - line, scanned.length, scanned.kind, scanned.number);
                at = next;
            }
            if (place < count) break;
            const std::uint8_t *next = skip_spaces(at);
            if (*next != '}' || *(next = skip_spaces(next + 1)) != '\n') break;
            at = next + 1;
        }
        for (std::size_t i = 0; i < count; ++i) keep(i, before + rows);
        for (std::size_t i = 0; i < place; ++i) keep(i, before + rows + 1);
        scan.line_ = line;
        scan.row_ += static_cast<std::int32_t>(rows);
        scan.lines_ += static_cast<std::int64_t>(rows);
        return at;
    }

    void keep(std::size_t place, std::size_t rows) const {
        if (scan.leads_[place].field >= 0) values_at(place).resize(static_cast<std::int32_t>(rows));
    }

    BUSHEL_VECTORS const std::uint8_t *lines(const std::uint8_t *at, const std::uint8_t *end) {
        while (at < end && !scan.full()) {
            std::size_t place = 0;
            if (alike >= enough_alike) {
                const std::int32_t before = scan.row_;
                at = run(at, end, place);
                enough_alike = scan.row_ - before < short_run ? std::min(2 * enough_alike, most_alike) : few_alike;
                alike = 0;
                if (!place) continue;
            } else {
                scan.begin_line(at);
                at = skip_spaces(at);
                if (*at == '\n') {
                    ++scan.lines_;
                    ++at;
                    continue;
                }
                if (*at != '{') return scan.line_;
            }
            at = rest(at, end, place);
            if (!at) return scan.line_;
            ++scan.lines_;
        }
        return at;
    }
};

void LineScan::Lead::set(const std::uint8_t *begin, std::size_t count, std::int64_t number) {
    size = count <= longest ? count : 0;
    mask = size ? ~std::uint64_t{0} >> (longest - size) : 1;  // no name begins with the byte 0
    field = number;
    bytes[0] = 0;
    std::memcpy(bytes, begin, size);
}

const std::uint8_t *LineScan::fast_lines(const std::uint8_t *at, const std::uint8_t *end) {
    return FastLines{*this}.lines(at, end);
}

}  // namespace bushel
