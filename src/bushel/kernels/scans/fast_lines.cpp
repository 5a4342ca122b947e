// Lines with vectors. Bytes are looked at in blocks of 64; masks say where quotes, backslashes and others are. A
// line that is not as lines usually are is left to the code that goes byte by byte: names with escapes, and all mistakes.
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

struct FastLines {
    using Lead = LineScan::Lead;

    LineScan &scan;

    // Return whether a lead is at `at`.
    BUSHEL_VECTORS_INLINE static bool is_at(const Lead &lead, const std::uint8_t *at) {
        using namespace vectors;
        if (!lead.size || ~mask_of(equal_8(load(at), load(lead.bytes))) & lead.mask & 0xFFFFFFFF) return false;
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

    // Scan a value, and return the byte after it; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *value(const std::uint8_t *at, const std::uint8_t *end, std::int64_t field) {
        const std::uint8_t first = *at;
        if (first == '"') {
            bool escaped = false;
            const std::uint8_t *const last = end_of_string(at + 1, end, escaped);
            if (!last) return nullptr;
            if (field >= 0) scan.put(field, at + 1, last - at - 1, escaped ? ValueKind::escaped : ValueKind::quoted, 0);
            return last + 1;
        }
        if (first == '{' || first == '[') {
            const std::uint8_t *const next = end_of_value(at, end);
            if (next && field >= 0) scan.put(field, at, next - at, ValueKind::nested, 0);
            return next;
        }
        if (first == 't' || first == 'f' || first == 'n') {
            const char *const text = first == 't' ? "true" : first == 'f' ? "false" : "null";
            const std::ptrdiff_t size = first == 'f' ? 5 : 4;
            if (end - at < size || std::memcmp(at, text, static_cast<std::size_t>(size))) return nullptr;
            const ValueKind kind = first == 't' ? ValueKind::yes : first == 'f' ? ValueKind::no : ValueKind::null;
            if (field >= 0) scan.put(field, at, size, kind, first == 't');
            return at + size;
        }
        NumberFound number;
        if (!fast_number(scan.data_, at, end, number)) return nullptr;
        if (field >= 0) scan.put(field, at, number.size, number.kind, number.bits);
        return at + number.size;
    }

    // Scan a line of JSON, and return the byte after it; nullptr if it is unusual.
    BUSHEL_VECTORS_INLINE const std::uint8_t *line(const std::uint8_t *at, const std::uint8_t *end) {
        scan.begin_line(at);
        at = skip_spaces(at);
        if (*at == '\n') return at + 1;
        if (*at != '{') return nullptr;
        const Lead *leads = scan.leads_.data();
        std::size_t known = scan.leads_.size();
        for (std::size_t place = 0;; ++place) {
            std::int64_t field;
            const Lead *const lead = leads + place;
            if (place < known && end - at >= static_cast<std::ptrdiff_t>(Lead::longest) && is_at(*lead, at)) {
                field = lead->field;
                at += lead->size;
            } else {
                at = name(at, end, place, field);
                if (!at) return nullptr;
                leads = scan.leads_.data();
                known = scan.leads_.size();
            }
            at = value(at, end, field);
            if (!at) return nullptr;
            if (*at == ',') continue;
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
};

void LineScan::Lead::set(const std::uint8_t *begin, std::size_t count, std::int64_t number) {
    size = count <= longest ? count : 0;
    mask = size ? ~std::uint64_t{0} >> (longest - size) : 0;
    field = number;
    std::memcpy(bytes, begin, size);
}

const std::uint8_t *LineScan::fast_lines(const std::uint8_t *at, const std::uint8_t *end) {
    return FastLines{*this}.lines(at, end);
}

}  // namespace bushel
