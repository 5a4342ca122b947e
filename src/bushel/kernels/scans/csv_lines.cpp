// Records of CSV, cell by cell: the reference for fast_lines.cpp, which leaves unusual cells to it.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "scans/lines.hpp"

namespace bushel {

namespace {

// A cell of CSV: its text, and the byte after it, which is a delimiter or a line end, or the end of the bytes.
struct Cell {
    const std::uint8_t *begin = nullptr;
    const std::uint8_t *last = nullptr;
    const std::uint8_t *next = nullptr;
    ValueKind kind = ValueKind::none;  // none: the quotes do not end
    std::int64_t line_ends = 0;
    bool garbage = false;  // text after the closing quote, at `next`
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
    while ((quote = find_first(quote, end, '"')) && end - quote > 1 && quote[1] == '"') {
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
constexpr const char *behind_quote = "expected a delimiter or the end of the line after a quoted cell";

}  // namespace

// Scan a record, and return the byte after it; nullptr if it is damaged, and `at` if it does not end in these bytes.
const std::uint8_t *LineScan::csv_record(const std::uint8_t *const record, const std::uint8_t *end, bool last) {
    const std::uint8_t *at = record;
    begin_line(record);
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
