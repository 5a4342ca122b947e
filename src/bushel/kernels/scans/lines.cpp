#include "scans/lines.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace bushel {

namespace {

inline bool is_space(std::uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }

inline const std::uint8_t *skip_spaces(const std::uint8_t *at, const std::uint8_t *end) {
    while (at < end && is_space(*at)) ++at;
    return at;
}

inline const std::uint8_t *find(const std::uint8_t *at, const std::uint8_t *end, int byte) {
    if (at == end) return nullptr;
    return static_cast<const std::uint8_t *>(std::memchr(at, byte, static_cast<std::size_t>(end - at)));
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

void append_utf8(std::string &text, std::uint32_t code) {
    const auto add = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
        add(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            add(0xE0 | code >> 12);
        } else {
            add(0xF0 | code >> 18);
            add(0x80 | (code >> 12 & 0x3F));
        }
        add(0x80 | (code >> 6 & 0x3F));
    }
    add(0x80 | (code & 0x3F));
}

}  // namespace

void FieldValues::clear() {
    row.clear();
    offset.clear();
    length.clear();
    kind.clear();
    number.clear();
}

void FieldValues::remove_row(std::int32_t last) {
    if (row.empty() || row.back() != last) return;
    row.pop_back();
    offset.pop_back();
    length.pop_back();
    kind.pop_back();
    number.pop_back();
}

LineScan::LineScan(std::vector<std::string> names, std::uint8_t delimiter, bool closed, std::size_t most_names)
    : names_(std::move(names)), values_(names_.size()), delimiter_(delimiter), closed_(closed),
      most_names_(most_names) {
    for (std::size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], static_cast<std::int64_t>(i));
}

bool LineScan::fail(const char *what, const std::uint8_t *at) {
    problem_ = what;
    problem_offset_ = start_ + (at - data_);
    return false;
}

void LineScan::drop_row() {
    for (FieldValues &each : values_) each.remove_row(row_);
}

void LineScan::put(std::int64_t field, const Value &value) {
    FieldValues &own = values_[static_cast<std::size_t>(field)];
    own.remove_row(row_);  // of equal names in an object, the last counts
    own.row.push_back(row_);
    own.offset.push_back(start_ + (value.begin - data_));
    own.length.push_back(value.length);
    own.kind.push_back(static_cast<std::uint8_t>(value.kind));
    own.number.push_back(value.number);
}

// Return the number of a field, -1 for one that is not wanted, and -2 if there are too many.
std::int64_t LineScan::field_of(const std::uint8_t *name, std::size_t size, std::size_t place) {
    if (place < order_.size() && order_[place] >= 0) {
        const std::string &expected = names_[static_cast<std::size_t>(order_[place])];
        if (expected.size() == size && !std::memcmp(expected.data(), name, size)) return order_[place];
    }
    std::string text(reinterpret_cast<const char *>(name), size);
    const auto found = numbers_.find(text);
    std::int64_t number = -1;
    if (found != numbers_.end()) {
        number = found->second;
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
        const std::uint8_t byte = *++at;  // there is one: the string ends behind it
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
        if (at == end || *at != ':') return fail("expected a colon behind a name", at);
        Value value;
        if (!json_value(skip_spaces(at + 1, end), end, value)) return false;
        if (field >= 0) put(field, value);
        at = skip_spaces(value.end, end);
        if (at == end || (*at != ',' && *at != '}')) return fail("expected a comma or } behind a value", at);
        if (*at == '}') break;
        at = skip_spaces(at + 1, end);
    }
    at = skip_spaces(at + 1, end);
    if (at != end) return fail("expected the end of the line behind an object", at);
    ++row_;
    return true;
}

namespace {

// A cell of CSV: its text, and the byte behind it, which is a delimiter or a line end, or the end of the bytes.
struct Cell {
    const std::uint8_t *begin = nullptr;
    const std::uint8_t *last = nullptr;
    const std::uint8_t *next = nullptr;
    ValueKind kind = ValueKind::none;  // none: the quotes do not end
    std::int64_t line_ends = 0;
    bool garbage = false;  // text behind the closing quote, at `next`
};

Cell cell_at(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t delimiter) {
    if (at == end || *at != '"') {
        const std::uint8_t *const next = find_either(at, end, delimiter, '\n');
        const std::uint8_t *last = next;
        if (last > at && last[-1] == '\r' && (next == end || *next == '\n')) --last;
        return {at, last, next, last == at ? ValueKind::null : ValueKind::bare, 0, false};
    }
    bool doubled = false;
    const std::uint8_t *quote = ++at;
    while ((quote = find(quote, end, '"')) && end - quote > 1 && quote[1] == '"') {
        doubled = true;
        quote += 2;
    }
    if (!quote) return {};
    const std::int64_t line_ends = std::count(at, quote, '\n');
    const std::uint8_t *next = quote + 1;
    if (next < end && *next == '\r' && (end - next < 2 || next[1] == '\n')) ++next;
    const bool garbage = next < end && *next != delimiter && *next != '\n';
    return {at, quote, next, doubled ? ValueKind::escaped : ValueKind::quoted, line_ends, garbage};
}

constexpr const char *unclosed = "the quotes of a cell do not end";
constexpr const char *behind_quote = "expected a delimiter or the end of the line behind a quoted cell";

}  // namespace

// Scan a record, and return the byte behind it; nullptr if it is damaged, and `at` if it does not end in these bytes.
const std::uint8_t *LineScan::csv_record(const std::uint8_t *const record, const std::uint8_t *end, bool last) {
    const std::uint8_t *at = record;
    std::int64_t line_ends = 1;
    for (std::size_t column = 0;; ++column) {
        const Cell cell = cell_at(at, end, delimiter_);
        if (cell.kind == ValueKind::none || (cell.next == end && !last)) {
            drop_row();
            if (!last) return record;
            fail(unclosed, at);
            return nullptr;
        }
        if (cell.garbage) {
            fail(behind_quote, cell.next);
            return nullptr;
        }
        const bool ends = cell.next == end || *cell.next == '\n';
        if (ends && !column && cell.kind == ValueKind::null) {  // an empty line
            lines_ += 1;
            return cell.next == end ? end : cell.next + 1;
        }
        if (column >= names_.size()) {
            fail("the record has more cells than there are columns", at);
            return nullptr;
        }
        if (!names_[column].empty()) {
            Value value{cell.next, cell.begin, cell.last - cell.begin, cell.kind, 0};
            if (cell.kind == ValueKind::bare) {
                const ParsedNumber number = parse_number(cell.begin, cell.last);
                if (number.size && cell.begin + number.size == cell.last) {
                    value.kind = number.kind;
                    value.number = number.bits;
                }
            }
            put(static_cast<std::int64_t>(column), value);
        }
        line_ends += cell.line_ends;
        if (ends) {
            if (column + 1 < names_.size()) {
                fail("the record has fewer cells than there are columns", record);
                return nullptr;
            }
            ++row_;
            lines_ += line_ends;
            return cell.next == end ? end : cell.next + 1;
        }
        at = cell.next + 1;
    }
}

std::size_t LineScan::feed(const std::uint8_t *data, std::size_t size, std::int64_t start, bool last) {
    for (FieldValues &each : values_) each.clear();
    row_ = 0;
    data_ = data;
    start_ = start;
    problem_.clear();
    problem_offset_ = -1;
    const std::uint8_t *at = data;
    const std::uint8_t *const end = data + size;
    while (at < end && problem_.empty()) {
        if (delimiter_) {
            const std::uint8_t *const next = csv_record(at, end, last);
            if (!next || next == at) break;
            at = next;
            continue;
        }
        const std::uint8_t *const line_end = find(at, end, '\n');
        if (!line_end && !last) break;
        if (!json_line(at, line_end ? line_end : end)) break;
        ++lines_;
        at = line_end ? line_end + 1 : end;
    }
    if (!problem_.empty()) drop_row();
    return static_cast<std::size_t>(at - data);
}

CsvRecord first_csv_record(const std::uint8_t *data, std::size_t size, std::uint8_t delimiter, bool last,
                           std::size_t most) {
    CsvRecord record;
    const std::uint8_t *at = data, *const end = data + size;
    while (true) {
        const Cell cell = cell_at(at, end, delimiter);
        if (cell.kind == ValueKind::none || (cell.next == end && !last)) {
            if (last) throw std::invalid_argument(unclosed);
            record.end = -1;
            return record;
        }
        if (cell.garbage) throw std::invalid_argument(behind_quote);
        if (record.kind.size() == most) throw std::invalid_argument("the record has too many cells");
        record.offset.push_back(cell.begin - data);
        record.length.push_back(cell.last - cell.begin);
        record.kind.push_back(static_cast<std::uint8_t>(cell.kind));
        if (cell.next == end || *cell.next == '\n') {
            record.end = cell.next == end ? cell.next - data : cell.next + 1 - data;
            return record;
        }
        at = cell.next + 1;
    }
}

}  // namespace bushel
