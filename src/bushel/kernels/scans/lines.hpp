// A scan of lines of JSON, or of records of CSV: where the value of each field lies, and the numbers among the values.
#pragma once
#include <cstddef>
#include <cstdint>
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
    large_integer = 9,
    real = 10,
    nested = 11,
};

// The values of one field, of the lines that have it.
struct FieldValues {
    std::vector<std::int32_t> row;
    std::vector<std::int64_t> offset, length;
    std::vector<std::uint8_t> kind;
    std::vector<std::int64_t> number;  // truth values and integers; the bits of a real number, or of an uint64

    void clear();
    void remove_row(std::int32_t last);
};

// A number in text. `size` is 0 if the text does not begin with one.
struct ParsedNumber {
    std::size_t size = 0;
    ValueKind kind = ValueKind::none;
    std::int64_t bits = 0;
};

// Parse the number at the start of a text as JSON has it, or NaN, Infinity and -Infinity as Python writes them.
ParsedNumber parse_number(const std::uint8_t *at, const std::uint8_t *end);

// Return where one of two bytes is first, or `end`.
const std::uint8_t *find_either(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t a, std::uint8_t b);

// Return the end of the object or list of JSON that begins at `at`, or nullptr if it does not end before `end`. Only
// strings and the balance of brackets are looked at.
const std::uint8_t *end_of_nested(const std::uint8_t *at, const std::uint8_t *end);

// The cells of the first record of CSV.
struct CsvRecord {
    std::vector<std::int64_t> offset, length;
    std::vector<std::uint8_t> kind;
    std::int64_t end = 0;  // behind its line end; -1 if the record does not end in these bytes
};

class LineScan {
public:
    // With `delimiter`, the lines are records of CSV with the columns `names`, in order; an empty name is a column that
    // is not wanted. Without (0), they are objects of JSON; `closed` says that names other than these are passed over.
    LineScan(std::vector<std::string> names, std::uint8_t delimiter, bool closed, std::size_t most_names);

    // Scan the whole lines in some bytes, and return how many bytes they take. The values of the last call are dropped.
    // `start` is the position of the bytes in the file. With `last`, the bytes end with the last line.
    std::size_t feed(const std::uint8_t *data, std::size_t size, std::int64_t start, bool last);

    const std::vector<std::string> &names() const { return names_; }
    const FieldValues &values(std::size_t field) const { return values_[field]; }
    std::int32_t rows() const { return row_; }       // samples of the last call
    std::int64_t lines() const { return lines_; }    // lines before the next byte to be fed
    const std::string &problem() const { return problem_; }
    std::int64_t problem_offset() const { return problem_offset_; }

private:
    struct Value {
        const std::uint8_t *end = nullptr;
        const std::uint8_t *begin = nullptr;
        std::int64_t length = 0;
        ValueKind kind = ValueKind::none;
        std::int64_t number = 0;
    };

    bool json_line(const std::uint8_t *at, const std::uint8_t *end);
    bool json_value(const std::uint8_t *at, const std::uint8_t *end, Value &value);
    const std::uint8_t *csv_record(const std::uint8_t *at, const std::uint8_t *end, bool last);
    std::int64_t field_of(const std::uint8_t *name, std::size_t size, std::size_t place);
    bool escaped_name(const std::uint8_t *begin, const std::uint8_t *end);
    void put(std::int64_t field, const Value &value);
    void drop_row();
    bool fail(const char *what, const std::uint8_t *at);

    std::vector<std::string> names_;
    std::unordered_map<std::string, std::int64_t> numbers_;
    std::vector<FieldValues> values_;
    std::vector<std::int64_t> order_;  // the fields of the line before: the next line usually has the same
    std::string name_;
    std::uint8_t delimiter_;
    bool closed_;
    std::size_t most_names_;
    std::int32_t row_ = 0;
    std::int64_t lines_ = 0;
    const std::uint8_t *data_ = nullptr;
    std::int64_t start_ = 0;
    std::string problem_;
    std::int64_t problem_offset_ = -1;
};

// Cells of the record of CSV at the start of some bytes: at most `most`, of which a larger number throws
// std::invalid_argument, as damaged quotes do.
CsvRecord first_csv_record(const std::uint8_t *data, std::size_t size, std::uint8_t delimiter, bool last,
                           std::size_t most);

}  // namespace bushel
