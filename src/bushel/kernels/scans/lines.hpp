// A scan of lines of JSON, or of records of CSV: where the value of each field is, and the numbers among the values.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace bushel {

// The kind of a value. Only CSV has texts that are not quoted.
enum class ValueKind : std::uint8_t {
    none = 0,
    null = 1,  // of JSON, or an empty cell
    bare = 2,
    quoted = 3,   // the extent is that between the quotes
    escaped = 4,  // the same, with backslashes or doubled quotes
    no = 5,
    yes = 6,
    integer = 7,           // that fits int64
    unsigned_integer = 8,  // that fits uint64 only
    large = 9,             // a number that neither a 64-bit integer nor a float holds
    real = 10,
    nested = 11,
};

// The values of one field, of consecutive samples from `first` on. The quotes around texts belong to them.
class FieldValues {
public:
    std::int32_t first() const { return first_; }
    std::size_t size() const { return size_; }
    const std::uint32_t *place() const { return place_.get(); }    // bytes from the start of the line
    const std::uint32_t *length() const { return length_.get(); }  // one more than the bytes; 0: missing or null
    const std::uint8_t *kind() const { return kind_.get(); }
    const std::int64_t *number() const { return number_.get(); }  // truth values, integers, bits of real numbers; else 0

    // Whether a sample, which no later one follows so far, has a value.
    bool has(std::int32_t row) const { return size_ && first_ + static_cast<std::int32_t>(size_) > row; }

    // Set the value of a sample that is the last one so far, or comes after it. The length of one that is null is -1.
    void set(std::int32_t row, std::int64_t place, std::int64_t length, ValueKind kind, std::int64_t number) {
        std::size_t at = static_cast<std::size_t>(row - first_);
        if (at != size_ || at >= room_) at = make_room(row);
        place_[at] = static_cast<std::uint32_t>(place);
        length_[at] = static_cast<std::uint32_t>(length + 1);
        kind_[at] = static_cast<std::uint8_t>(kind);
        number_[at] = number;
        size_ = at + 1;
    }

    // The places of some values, which follow each other.
    struct Slots {
        std::uint32_t *place, *length;
        std::int64_t *number;
        std::uint8_t *kind;

        void set(std::size_t i, std::int64_t value_place, std::int64_t bytes, ValueKind value_kind, std::int64_t value) const {
            place[i] = static_cast<std::uint32_t>(value_place);
            length[i] = static_cast<std::uint32_t>(bytes + 1);
            number[i] = value;
            kind[i] = static_cast<std::uint8_t>(value_kind);
        }
        void set_kinds(std::size_t begin, std::size_t end, ValueKind value_kind) const {
            std::fill(kind + begin, kind + end, static_cast<std::uint8_t>(value_kind));
        }
    };

    // Make room for the values of samples from `row` on, which become values by `resize`.
    Slots slots(std::int32_t row, std::size_t count);
    void resize(std::int32_t rows) { size_ = static_cast<std::size_t>(rows - first_); }

    void remove(std::int32_t last);
    void clear() { size_ = 0; }

private:
    std::size_t make_room(std::int32_t row);
    void grow(std::size_t count);
    void set_missing(std::size_t end);  // the values before that one, which none has set

    std::int32_t first_ = 0;
    std::size_t size_ = 0, room_ = 0;
    std::unique_ptr<std::uint32_t[]> place_, length_;
    std::unique_ptr<std::int64_t[]> number_;
    std::unique_ptr<std::uint8_t[]> kind_;
};

// Facts of all values of a field, of all samples that were taken.
struct FieldFacts {
    std::uint32_t kinds = 0;  // the bit of each kind that occurs; `none`: a sample lacks the field
    bool negative = false;    // whether an integer that fits int64 is negative
    bool inexact = false;     // whether one is beyond 2^53, so that a float may not be the same number
};

// A number in text. `size` is 0 if the text does not begin with one.
struct ParsedNumber {
    std::size_t size = 0;
    ValueKind kind = ValueKind::none;
    std::int64_t bits = 0;
};

// Parse the number at the start of a text as JSON has it, or NaN, Infinity and -Infinity as Python writes them.
ParsedNumber parse_number(const std::uint8_t *at, const std::uint8_t *end);

inline bool is_space(std::uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }

// Return where a byte is first, or nullptr.
inline const std::uint8_t *find_first(const std::uint8_t *at, const std::uint8_t *end, int byte) {
    if (at == end) return nullptr;
    return static_cast<const std::uint8_t *>(std::memchr(at, byte, static_cast<std::size_t>(end - at)));
}

// Return where one of two bytes is first, or `end`.
const std::uint8_t *find_either(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t a, std::uint8_t b);

// Return the end of the object or list of JSON that begins at `at`, or nullptr if it does not end before `end`. Only
// strings and the balance of brackets are looked at.
const std::uint8_t *end_of_nested(const std::uint8_t *at, const std::uint8_t *end);

// The cells of the first record of CSV.
struct CsvRecord {
    std::vector<std::int64_t> offset, length;
    std::vector<std::uint8_t> kind;
    std::int64_t end = 0;  // after its line end; -1 if the record does not end in these bytes
};

class LineScan {
public:
    // With `delimiter`, the lines are records of CSV with the columns `names`, in order; an empty name is a column that
    // is not wanted. Without (0), they are objects of JSON; `closed` says that names other than these are skipped.
    // `vectors` says whether vectors are used, where the processor has them.
    LineScan(std::vector<std::string> names, std::uint8_t delimiter, bool closed, std::size_t most_names,
             bool vectors = true);

    // Scan the whole lines in some bytes, up to the one that makes the scan full, and return how many bytes they take.
    // `start` is the position of the bytes in the file. With `last`, the bytes end with the last line.
    std::size_t feed(const std::uint8_t *data, std::size_t size, std::int64_t start, bool last);

    // Take out all samples, which collect until then, as a block (line_blocks.hpp), which is valid until the next call.
    const std::vector<std::uint8_t> &take();

    // Drop all samples.
    void clear();

    // Whether the samples must be taken out before more bytes are fed.
    bool full() const { return static_cast<std::size_t>(row_) * (names_.size() + 1) > values_limit(); }

    const std::vector<std::string> &names() const { return names_; }
    const FieldValues &values(std::size_t field) const { return values_[field]; }
    const FieldFacts &facts(std::size_t field) const { return facts_[field]; } // of samples that were taken
    std::size_t known_facts() const { return facts_.size(); }
    const std::int64_t *starts() const { return starts_.data(); }  // of the lines of the samples
    std::int32_t rows() const { return row_; }                     // samples since some were taken or dropped
    std::int64_t lines() const { return lines_; }    // lines before the next byte to be fed
    const std::string &problem() const { return problem_; }
    std::int64_t problem_offset() const { return problem_offset_; }

private:
    friend struct FastLines;
    friend struct FastRecords;

    // Few values stay in the processor's cache; but fields take time, however few values they have.
    static constexpr std::size_t few_values = std::size_t{1} << 15, most_values = std::size_t{1} << 19, most_rows = 4096;

    std::size_t values_limit() const { return std::clamp((names_.size() + 1) * most_rows, few_values, most_values); }
    std::size_t rows_left() const { return values_limit() / (names_.size() + 1) + 1 - static_cast<std::size_t>(row_); }

    struct Value {
        const std::uint8_t *end = nullptr;
        const std::uint8_t *begin = nullptr;
        std::int64_t length = 0;
        ValueKind kind = ValueKind::none;
        std::int64_t number = 0;
    };

    // The bytes between two values, or before the first one, that name a field: `{"a": ` or `, "b": `.
    struct Lead {
        static constexpr std::size_t longest = 64;
        std::uint8_t bytes[longest];
        std::uint64_t mask = 0;  // a bit for each of them
        std::size_t size = 0;    // 0: none
        std::int64_t field = -1;

        void set(const std::uint8_t *begin, std::size_t count, std::int64_t number);
    };

    // A quote or a line end within a cell. It is literal if the quotes of the cell do not begin or end there.
    struct InnerByte {
        std::uint32_t at;
        bool literal;
    };

    bool json_line(const std::uint8_t *at, const std::uint8_t *end);
    bool json_value(const std::uint8_t *at, const std::uint8_t *end, Value &value);
    const std::uint8_t *csv_record(const std::uint8_t *at, const std::uint8_t *end, bool last);

    // Scan lines with vectors, up to one that the functions above must scan, and return where it begins. For JSON, `end`
    // follows a line end.
    const std::uint8_t *fast_lines(const std::uint8_t *at, const std::uint8_t *end);
    const std::uint8_t *fast_records(const std::uint8_t *at, const std::uint8_t *end);
    std::int64_t field_of(const std::uint8_t *name, std::size_t size, std::size_t place);
    bool escaped_name(const std::uint8_t *begin, const std::uint8_t *end);
    void put(std::int64_t field, const Value &value) {
        if (value.kind == ValueKind::null) return put(field, line_, -1, value.kind, 0);
        const std::int64_t quote = value.kind == ValueKind::quoted || value.kind == ValueKind::escaped;
        put(field, value.begin - quote, value.length + 2 * quote, value.kind, value.number);
    }
    void put(std::int64_t field, const std::uint8_t *begin, std::int64_t length, ValueKind kind, std::int64_t number) {
        values_[static_cast<std::size_t>(field)].set(row_, begin - line_, length, kind, number);
    }
    // Begin with a line, in which the next sample may be.
    void begin_line(const std::uint8_t *at) {
        line_ = at;
        const auto row = static_cast<std::size_t>(row_);
        if (row >= starts_.size()) starts_.resize(2 * row + 64);
        starts_[row] = start_ + (at - data_);
    }
    void drop_row();
    bool fail(const char *what, const std::uint8_t *at);

    std::vector<std::string> names_;
    std::unordered_map<std::string, std::int64_t> numbers_;
    std::vector<FieldValues> values_;
    std::vector<FieldFacts> facts_;
    std::vector<std::int64_t> starts_;
    std::vector<std::uint8_t> block_;
    std::vector<std::int64_t> order_;  // the fields of the line before: the next line usually has the same
    std::vector<Lead> leads_;          // the same with what names them
    std::vector<FieldValues::Slots> slots_;  // memory of fast_lines
    std::vector<std::uint32_t> ends_;  // of cells, and other bytes in cells: memory of fast_records
    std::vector<InnerByte> inner_;
    FieldValues unwanted_;
    std::string name_;
    std::uint8_t delimiter_;
    bool closed_;
    bool vectors_;
    std::size_t most_names_;
    std::int32_t row_ = 0;
    std::int64_t lines_ = 0, taken_ = 0;
    const std::uint8_t *data_ = nullptr, *line_ = nullptr;
    std::int64_t start_ = 0;
    std::string problem_;
    std::int64_t problem_offset_ = -1;
};

// Cells of the record of CSV at the start of some bytes: at most `most`; a larger number throws
// std::invalid_argument, as damaged quotes do.
CsvRecord first_csv_record(const std::uint8_t *data, std::size_t size, std::uint8_t delimiter, bool last,
                           std::size_t most);

}  // namespace bushel
