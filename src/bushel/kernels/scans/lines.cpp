// Lines of JSON, byte by byte: the reference for fast_lines.cpp, which leaves unusual lines to it.
#include "scans/lines.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/bytes.hpp"
#include "common/vectors.hpp"

namespace bushel {

namespace {

inline const std::uint8_t *skip_spaces(const std::uint8_t *at, const std::uint8_t *end) {
    while (at < end && is_space(*at)) ++at;
    return at;
}

// Return the quote that ends the string of JSON whose first byte is at `at`, or nullptr.
inline const std::uint8_t *end_of_string(const std::uint8_t *at, const std::uint8_t *end, bool &escaped) {
    while (true) {
        at = find_either(at, end, '"', '\\');
        if (at == end) return nullptr;
        if (*at == '"') return at;
        escaped = true;
        if (end - at < 2) return nullptr;
        at += 2;
    }
}

int hex_digit(std::uint8_t byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

// Return the number of four hexadecimal digits, or -1.
int hex_number(const std::uint8_t *at, const std::uint8_t *end) {
    if (end - at < 4) return -1;
    int number = 0;
    for (int i = 0; i < 4; ++i) {
        const int digit = hex_digit(at[i]);
        if (digit < 0) return -1;
        number = number * 16 + digit;
    }
    return number;
}

// Whether cells can end with a byte that ends no number and is not a quote or the end of a line.
bool is_usual_delimiter(std::uint8_t byte) { return !std::isalnum(byte) && !std::strchr("+-.\"\r\n", byte); }

}  // namespace

std::size_t FieldValues::make_room(std::int32_t row) {
    if (!size_) first_ = row;
    const auto at = static_cast<std::size_t>(row - first_);
    if (size_ && at + 1 == size_) return at;  // of equal names in an object, the last counts
    grow(at + 1);
    set_missing(at);
    return at;
}

void FieldValues::grow(std::size_t count) {
    if (count <= room_) return;
    const std::size_t room = std::max<std::size_t>({64, count, 2 * room_});
    const auto grown = [&](auto &elements) {
        std::remove_reference_t<decltype(elements)> more(new std::remove_reference_t<decltype(elements[0])>[room]);
        std::copy_n(elements.get(), size_, more.get());
        elements = std::move(more);
    };
    grown(place_), grown(length_), grown(number_), grown(kind_);
    room_ = room;
}

void FieldValues::set_missing(std::size_t end) {
    for (std::size_t i = size_; i < end; ++i) {
        place_[i] = length_[i] = 0;
        number_[i] = 0;
        kind_[i] = static_cast<std::uint8_t>(ValueKind::none);
    }
}

FieldValues::Slots FieldValues::slots(std::int32_t row, std::size_t count) {
    if (!size_) first_ = row;
    const auto at = static_cast<std::size_t>(row - first_);
    grow(at + count);
    set_missing(at);
    return {place_.get() + at, length_.get() + at, number_.get() + at, kind_.get() + at};
}

void FieldValues::remove(std::int32_t last) {
    if (size_ && first_ + static_cast<std::int32_t>(size_) - 1 == last) --size_;
}

LineScan::LineScan(std::vector<std::string> names, std::uint8_t delimiter, bool closed, std::size_t most_names,
                   bool vectors)
    : names_(std::move(names)), values_(names_.size()), delimiter_(delimiter), closed_(closed),
      vectors_(vectors && vectors_need != Simd::scalar && supports(vectors_need) &&
               (!delimiter || (is_usual_delimiter(delimiter) && !names_.empty()))),
      most_names_(most_names) {
    for (std::size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], static_cast<std::int64_t>(i));
}

bool LineScan::fail(const char *what, const std::uint8_t *at) {
    problem_ = what;
    problem_offset_ = start_ + (at - data_);
    return false;
}

void LineScan::drop_row() {
    for (FieldValues &values : values_) values.remove(row_);
}

// Return the number of a field, -1 for one that is not wanted, and -2 if there are too many.
std::int64_t LineScan::field_of(const std::uint8_t *name, std::size_t size, std::size_t place) {
    if (place < order_.size() && order_[place] >= 0) {
        const std::string &expected = names_[static_cast<std::size_t>(order_[place])];
        if (expected.size() == size && !std::memcmp(expected.data(), name, size)) return order_[place];
    }
    std::string text(reinterpret_cast<const char *>(name), size);
    const auto entry = numbers_.find(text);
    std::int64_t number = -1;
    if (entry != numbers_.end()) {
        number = entry->second;
    } else if (!closed_) {
        if (names_.size() >= most_names_) return -2;
        number = static_cast<std::int64_t>(names_.size());
        numbers_.emplace(text, number);
        names_.push_back(std::move(text));
        values_.emplace_back();
    }
    if (place == order_.size()) {
        order_.push_back(number);
    } else if (place < order_.size()) {
        order_[place] = number;
    }
    return number;
}

// Resolve the escapes of a name into `name_`.
bool LineScan::escaped_name(const std::uint8_t *begin, const std::uint8_t *end) {
    name_.clear();
    for (const std::uint8_t *at = begin; at < end; ++at) {
        if (*at != '\\') {
            name_.push_back(static_cast<char>(*at));
            continue;
        }
        static constexpr char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const std::uint8_t byte = *++at;  // there is one: the string ends after it
        if (const char *const known = byte ? std::strchr(from, byte) : nullptr) {
            name_.push_back(to[known - from]);
            continue;
        }
        int code = byte == 'u' ? hex_number(at + 1, end) : -1;
        if (code < 0) return fail("a name has an invalid escape", at - 1);
        at += 4;
        if (code >= 0xD800 && code < 0xE000) {
            const int low = code < 0xDC00 && end - at > 6 && at[1] == '\\' && at[2] == 'u' ? hex_number(at + 3, end) : -1;
            if (low < 0xDC00 || low >= 0xE000) return fail("a name has half of a surrogate pair", at - 5);
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            at += 6;
        }
        append_utf8(name_, static_cast<std::uint32_t>(code));
    }
    return true;
}

bool LineScan::json_value(const std::uint8_t *at, const std::uint8_t *end, Value &value) {
    const auto literal = [&](const char *text, std::ptrdiff_t size, ValueKind kind) {
        if (end - at < size || std::memcmp(at, text, static_cast<std::size_t>(size))) {
            return fail("expected a value", at);
        }
        value = {at + size, at, size, kind, kind == ValueKind::yes};
        return true;
    };
    if (at == end) return fail("the line ends where a value should be", at);
    switch (*at) {
        case '"': {
            bool escaped = false;
            const std::uint8_t *const last = end_of_string(at + 1, end, escaped);
            if (!last) return fail("a string does not end in its line", at);
            value = {last + 1, at + 1, last - at - 1, escaped ? ValueKind::escaped : ValueKind::quoted, 0};
            return true;
        }
        case '{':
        case '[': {
            const std::uint8_t *const last = end_of_nested(at, end);
            if (!last) return fail("a list or an object does not end in its line", at);
            value = {last, at, last - at, ValueKind::nested, 0};
            return true;
        }
        case 't':
            return literal("true", 4, ValueKind::yes);
        case 'f':
            return literal("false", 5, ValueKind::no);
        case 'n':
            return literal("null", 4, ValueKind::null);
        default: {
            const ParsedNumber number = parse_number(at, end);
            if (!number.size) return fail("expected a value", at);
            const auto size = static_cast<std::ptrdiff_t>(number.size);
            value = {at + size, at, size, number.kind, number.bits};
            return true;
        }
    }
}

// Scan one line without its line end. An empty line has no sample.
bool LineScan::json_line(const std::uint8_t *at, const std::uint8_t *end) {
    begin_line(at);
    at = skip_spaces(at, end);
    if (at == end) return true;
    if (*at != '{') return fail("expected an object, which begins with {", at);
    at = skip_spaces(at + 1, end);
    for (std::size_t place = 0; place || at == end || *at != '}'; ++place) {
        if (at == end) return fail("the line ends in an object", at);
        if (*at != '"') return fail("expected a name in quotes", at);
        bool escaped = false;
        const std::uint8_t *const last = end_of_string(at + 1, end, escaped);
        if (!last) return fail("a name does not end in its line", at);
        if (escaped && !escaped_name(at + 1, last)) return false;
        const std::int64_t field =
            escaped ? field_of(reinterpret_cast<const std::uint8_t *>(name_.data()), name_.size(), place)
                    : field_of(at + 1, static_cast<std::size_t>(last - at - 1), place);
        if (field == -2) return fail("the lines have too many different names", at);
        at = skip_spaces(last + 1, end);
        if (at == end || *at != ':') return fail("expected a colon after a name", at);
        Value value;
        if (!json_value(skip_spaces(at + 1, end), end, value)) return false;
        if (field >= 0) put(field, value);
        at = skip_spaces(value.end, end);
        if (at == end || (*at != ',' && *at != '}')) return fail("expected a comma or } after a value", at);
        if (*at == '}') break;
        at = skip_spaces(at + 1, end);
    }
    at = skip_spaces(at + 1, end);
    if (at != end) return fail("expected the end of the line after an object", at);
    ++row_;
    return true;
}

void LineScan::clear() {
    for (FieldValues &values : values_) values.clear();
    row_ = 0;
}

std::size_t LineScan::feed(const std::uint8_t *data, std::size_t size, std::int64_t start, bool last) {
    constexpr std::size_t most = std::size_t{1} << 31;  // places in a line have 32 bits
    last = last && size <= most;
    size = std::min(size, most);
    data_ = data;
    start_ = start;
    problem_.clear();
    problem_offset_ = -1;
    const std::uint8_t *at = data;
    const std::uint8_t *const end = data + size;
    const std::uint8_t *lines_end = end;  // after the last line end
    while (lines_end > data && lines_end[-1] != '\n') --lines_end;
    while (at < end && problem_.empty() && !full()) {
        if (vectors_) {
            const std::uint8_t *const next = delimiter_ ? fast_records(at, end) : fast_lines(at, lines_end);
            if (next != at) {
                at = next;
                continue;
            }
        }
        if (delimiter_) {
            const std::uint8_t *const next = csv_record(at, end, last);
            if (!next || next == at) break;
            at = next;
            continue;
        }
        if (at == lines_end && !last) break;
        const std::uint8_t *const line_end = find_first(at, end, '\n');
        if (!json_line(at, line_end ? line_end : end)) break;
        ++lines_;
        at = line_end ? line_end + 1 : end;
    }
    if (!problem_.empty()) drop_row();
    return static_cast<std::size_t>(at - data);
}

}  // namespace bushel
