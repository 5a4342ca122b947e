// Lines with vectors. Bytes are looked at in blocks of 64; masks say where quotes, backslashes and others are. A
// line that is not as lines usually are is left to the code that goes byte by byte: names with escapes, and all mistakes.
#include <cstring>

#include "common/vectors.hpp"
#include "scans/lines.hpp"

namespace bushel {

namespace {

constexpr std::ptrdiff_t block_size = 64;

// 64 bytes, or those that are left before `end`, and zeros.
struct Block {
    vectors::Vector first, second;
};

BUSHEL_VECTORS_INLINE Block block_at(const std::uint8_t *at, const std::uint8_t *end) {
    if (end - at >= block_size) return {vectors::load(at), vectors::load(at + 32)};
    std::uint8_t bytes[block_size] = {};
    if (at < end) std::memcpy(bytes, at, static_cast<std::size_t>(end - at));
    return {vectors::load(bytes), vectors::load(bytes + 32)};
}

// The mask of a byte in a block.
BUSHEL_VECTORS_INLINE std::uint64_t mask_of(const Block &block, int byte) {
    return vectors::mask_of_byte(block.first, byte) |
           std::uint64_t{vectors::mask_of_byte(block.second, byte)} << 32;
}

inline int lowest(std::uint64_t mask) { return __builtin_ctzll(mask); }
inline std::uint64_t below(int bit) { return (std::uint64_t{1} << bit) - 1; }

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

// Bit i is set if an odd number of the bits up to i is.
inline std::uint64_t odd_up_to(std::uint64_t bits) {
    for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
    return bits;
}

// Return the quote that ends the string of JSON whose first byte is at `at`; nullptr if the line ends before it.
BUSHEL_VECTORS_INLINE const std::uint8_t *end_of_string(const std::uint8_t *at, const std::uint8_t *end,
                                                        bool &escaped) {
    while (true) {
        const Block block = block_at(at, end);
        const std::uint64_t backslashes = mask_of(block, '\\'), line_ends = mask_of(block, '\n');
        std::uint64_t quotes = mask_of(block, '"');
        if (backslashes) quotes &= ~escaped_bytes(backslashes);
        if (const std::uint64_t stops = quotes | line_ends) {
            const int stop = lowest(stops);
            if (line_ends >> stop & 1) return nullptr;
            escaped |= (backslashes & below(stop)) != 0;
            return at + stop;
        }
        escaped |= backslashes != 0;
        at += block_size;
        if (escapes_next(backslashes) && *at++ == '\n') return nullptr;
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
            for (std::uint64_t both = opened | closed; both; both &= both - 1) {
                if (opened & both & -both) {
                    ++depth;
                } else if (--depth == 0) {
                    return at + lowest(both) + 1;
                }
            }
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

struct FastLines {
    using Lead = LineScan::Lead;
    using Value = LineScan::Value;

    LineScan &scan;

    // Return whether a lead is at `at`.
    static bool is_at(const Lead &lead, const std::uint8_t *at, const std::uint8_t *end) {
        if (!lead.size || end - at < static_cast<std::ptrdiff_t>(Lead::longest)) return false;
        for (std::size_t i = 0; i < lead.size; i += 8) {
            std::uint64_t found, expected;
            std::memcpy(&found, at + i, 8);
            std::memcpy(&expected, lead.bytes + i, 8);
            std::uint64_t kept;
            std::memcpy(&kept, lead.mask + i, 8);
            if ((found & kept) != expected) return false;
        }
        return true;
    }

    // Scan the name after the brace or comma at `at`, and return where its value begins; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *name(const std::uint8_t *const begin, const std::uint8_t *end,
                                                   std::size_t place, std::int64_t &field) {
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

    // Scan a value, and return the byte after it; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *value(const std::uint8_t *at, const std::uint8_t *end, std::int64_t field) {
        Value found{nullptr, at, 0, ValueKind::nested, 0};
        const std::uint8_t first = *at;
        if (first == '"') {
            bool escaped = false;
            const std::uint8_t *const last = end_of_string(at + 1, end, escaped);
            if (!last) return nullptr;
            found = {last + 1, at + 1, last - at - 1, escaped ? ValueKind::escaped : ValueKind::quoted, 0};
        } else if (first == '{' || first == '[') {
            found.end = end_of_value(at, end);
            if (!found.end) return nullptr;
            found.length = found.end - at;
        } else if (first == 't' || first == 'f' || first == 'n') {
            const char *const text = first == 't' ? "true" : first == 'f' ? "false" : "null";
            const std::ptrdiff_t size = first == 'f' ? 5 : 4;
            if (end - at < size || std::memcmp(at, text, static_cast<std::size_t>(size))) return nullptr;
            const ValueKind kind = first == 't' ? ValueKind::yes : first == 'f' ? ValueKind::no : ValueKind::null;
            found = {at + size, at, size, kind, first == 't'};
        } else {
            const ParsedNumber number = parse_number(at, end);
            if (!number.size) return nullptr;
            found = {at + number.size, at, static_cast<std::int64_t>(number.size), number.kind, number.bits};
        }
        if (field >= 0) scan.put(field, found);
        return found.end;
    }

    // Scan a line of JSON, and return the byte after it; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *line(const std::uint8_t *at, const std::uint8_t *end) {
        at = skip_spaces(at);
        if (*at == '\n') return at + 1;
        if (*at != '{') return nullptr;
        for (std::size_t place = 0;; ++place) {
            std::int64_t field;
            if (place < scan.leads_.size() && is_at(scan.leads_[place], at, end)) {
                field = scan.leads_[place].field;
                at += scan.leads_[place].size;
            } else if (!(at = name(at, end, place, field))) {
                return nullptr;
            }
            at = value(at, end, field);
            if (!at) return nullptr;
            at = skip_spaces(at);
            if (*at == '}') break;
            if (*at != ',') return nullptr;
        }
        at = skip_spaces(at + 1);
        if (*at != '\n') return nullptr;
        ++scan.row_;
        return at + 1;
    }

    BUSHEL_VECTORS const std::uint8_t *lines(const std::uint8_t *at, const std::uint8_t *end) {
        while (at < end && !scan.full()) {
            const std::uint8_t *const next = line(at, end);
            if (!next) break;
            ++scan.lines_;
            at = next;
        }
        return at;
    }

    // Scan a cell of CSV in quotes, whose first byte is at `at`, and return its end; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE static const std::uint8_t *quoted(const std::uint8_t *at, const std::uint8_t *end, Value &found,
                                                            std::int64_t &line_ends) {
        found = {nullptr, at, 0, ValueKind::quoted, 0};
        while (end - at >= block_size) {
            const Block block = block_at(at, end);
            const std::uint64_t ends = mask_of(block, '\n');
            std::uint64_t quotes = mask_of(block, '"');
            std::ptrdiff_t used = block_size;
            while (quotes) {
                const int stop = lowest(quotes);
                if (end - at - stop < 2) return nullptr;
                if (at[stop + 1] != '"') {
                    line_ends += __builtin_popcountll(ends & below(stop));
                    found.length = at + stop - found.begin;
                    return at + stop + 1;
                }
                found.kind = ValueKind::escaped;
                if (stop == block_size - 1) used = block_size + 1;
                quotes &= ~(std::uint64_t{3} << stop);
            }
            line_ends += __builtin_popcountll(ends);
            at += used;
        }
        return nullptr;
    }

    // Return the first delimiter or line end at or after `at`, or nullptr if whole blocks contain none.
    BUSHEL_VECTORS_INLINE const std::uint8_t *end_of_cell(const std::uint8_t *at, const std::uint8_t *end) const {
        for (; end - at >= block_size; at += block_size) {
            const Block block = block_at(at, end);
            if (const std::uint64_t stops = mask_of(block, scan.delimiter_) | mask_of(block, '\n')) {
                return at + lowest(stops);
            }
        }
        return nullptr;
    }

    // Scan a cell, and return the delimiter or line end after it; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *cell(const std::uint8_t *at, const std::uint8_t *end, Value &found,
                                                   std::int64_t &line_ends) const {
        const auto ends = [&](const std::uint8_t *next) { return *next == scan.delimiter_ || *next == '\n'; };
        if (*at == '"') {
            const std::uint8_t *next = quoted(at + 1, end, found, line_ends);
            if (!next) return nullptr;
            if (*next == '\r' && end - next > 1 && next[1] == '\n') ++next;
            return ends(next) ? next : nullptr;
        }
        const std::uint8_t first = *at;
        if ((first >= '0' && first <= '9') || first == '-' || first == 'N' || first == 'I') {
            const ParsedNumber number = parse_number(at, end);
            const std::uint8_t *next = at + number.size;
            if (number.size && end - next > 1) {
                if (*next == '\r' && next[1] == '\n') ++next;
                if (ends(next)) {
                    found = {next, at, static_cast<std::int64_t>(number.size), number.kind, number.bits};
                    return next;
                }
            }
        }
        const std::uint8_t *const next = end_of_cell(at, end);
        if (!next) return nullptr;
        const std::uint8_t *last = next;
        if (last > at && last[-1] == '\r' && *next == '\n') --last;
        found = {next, at, last - at, last == at ? ValueKind::null : ValueKind::bare, 0};
        return next;
    }

    // Scan a record of CSV, and return the byte after it; nullptr if it is unusual, or does not end in whole blocks.
    BUSHEL_VECTORS_INLINE const std::uint8_t *record(const std::uint8_t *at, const std::uint8_t *end) {
        std::int64_t line_ends = 1;
        const std::size_t columns = scan.names_.size();
        for (std::size_t column = 0; end - at > block_size; ++column) {
            Value found;
            const std::uint8_t *const next = cell(at, end, found, line_ends);
            if (!next) return nullptr;
            const bool is_last = *next == '\n';
            if (is_last && !column && found.kind == ValueKind::null) break;  // an empty line
            if (column >= columns || (is_last && column + 1 < columns)) return nullptr;
            if (!scan.names_[column].empty()) scan.put(static_cast<std::int64_t>(column), found);
            at = next + 1;
            if (is_last) {
                ++scan.row_;
                scan.lines_ += line_ends;
                return at;
            }
        }
        return nullptr;
    }

    BUSHEL_VECTORS const std::uint8_t *records(const std::uint8_t *at, const std::uint8_t *end) {
        while (at < end && !scan.full()) {
            const std::uint8_t *const next = record(at, end);
            if (!next) break;
            at = next;
        }
        return at;
    }
};

void LineScan::Lead::set(const std::uint8_t *begin, std::size_t count, std::int64_t number) {
    size = count <= longest ? count : 0;
    field = number;
    for (std::size_t i = 0; i < longest; ++i) {
        mask[i] = i < size ? 0xFF : 0;
        bytes[i] = i < size ? begin[i] : 0;
    }
}

const std::uint8_t *LineScan::fast_lines(const std::uint8_t *at, const std::uint8_t *end) {
    return FastLines{*this}.lines(at, end);
}

const std::uint8_t *LineScan::fast_records(const std::uint8_t *at, const std::uint8_t *end) {
    return FastLines{*this}.records(at, end);
}

}  // namespace bushel
