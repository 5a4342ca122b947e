// Damaged lines, straight to the scans of lines and of values with lengths: a program that is built with sanitizers.
//
//     lines_test ROUNDS FILE...
//
// Each round damages each file 40 times, and as many lines that it makes up, and scans them as JSON and as CSV, with
// vectors and byte by byte, in chunks that are copied into memory of exactly their size, so that any access beyond them is
// found. It prints the number of cases, and fails for an extent outside, and if the two scans differ.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "scans/line_blocks.hpp"
#include "scans/line_rows.hpp"
#include "scans/lines.hpp"

namespace {

constexpr char special[] = "\"\\{}[],:\n\r0-eN.";
constexpr std::size_t longest = 3000;

std::mt19937_64 generator(7);

std::size_t below(std::size_t limit) { return static_cast<std::size_t>(generator() % limit); }

std::string damaged(const std::string &base) {
    std::string text = base.size() > longest ? base.substr(below(base.size() - longest), longest) : base;
    for (std::size_t left = 1 + below(6); left && !text.empty(); --left) {
        const std::size_t at = below(text.size());
        const char byte = special[below(sizeof special - 1)];
        switch (below(5)) {
            case 0:
                text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
                break;
            case 1:
                text.erase(at, 1 + below(8));
                break;
            case 2:
                text.insert(at, 1, byte);
                break;
            case 3:
                text.resize(at);
                break;
            default:
                text[at] = byte;
        }
    }
    return text;
}

std::unique_ptr<std::uint8_t[]> exact(const char *data, std::size_t size) {
    std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[size + !size]);
    std::memcpy(copy.get(), data, size);
    return copy;
}

// Append a random value of JSON: mostly valid, with escapes and brackets in strings of all lengths.
void append_value(std::string &line, int depth) {
    static const char *const plain[] = {"true", "false", "null", "NaN", "-Infinity", "0", "-0", "18446744073709551615",
                                        "18446744073709551616", "-9223372036854775808", "01", "1.", "-1.5e-3", "1e400",
                                        "0.30000000000000004", "123456789012345678901234567890.5", "9007199254740993",
                                        "4503599627370497.5", "9007199254740993.0", "0.5000000000000000", "-0.0000000000000000",
                                        "7", "-7", "7e", "7.", "7.5e3"};
    switch (below(depth > 3 ? 3 : 5)) {
        case 0:
            line += plain[below(sizeof plain / sizeof *plain)];
            break;
        case 1:
            line += std::to_string(static_cast<std::int64_t>(generator()) >> below(64));
            if (below(2)) {
                line += '.';
                for (std::size_t left = below(22); left; --left) line += static_cast<char>('0' + below(10));
            }
            break;
        case 2: {
            line += '"';
            static const char *const pieces[] = {"x", "\\\\", "\\\"", "\\n", "{", "]", ",", "\xc3\xa9", "aaaaaaaaaaaaaaaa"};
            for (std::size_t left = below(below(4) ? 8 : 120); left; --left) {
                line += pieces[below(sizeof pieces / sizeof *pieces)];
            }
            line += '"';
            break;
        }
        case 3:
            line += '[';
            for (std::size_t left = below(4); left; --left) append_value(line, depth + 1), line += left > 1 ? ", " : "";
            line += ']';
            break;
        default:
            line += '{';
            for (std::size_t left = below(4); left; --left) {
                line += "\"k\": ", append_value(line, depth + 1), line += left > 1 ? "," : "";
            }
            line += '}';
    }
}

// Lines of JSON. Half of the texts have the same names in most lines, usually in the same order.
std::string made_up() {
    static const char *const names[] = {"id", "text", "a", "b\\u00e9", "a name of more than sixty-four bytes ...............", ""};
    std::string text;
    const std::size_t same_fields = below(2) ? 1 + below(4) : 0, rarely = same_fields ? 99 : 9;
    for (std::size_t lines = 1 + below(same_fields ? 40 : 12); lines; --lines) {
        text += below(rarely) ? "{" : " { ";
        for (std::size_t i = 0, fields = same_fields && below(9) ? same_fields : below(6); i < fields; ++i) {
            const std::size_t which = below(same_fields ? 40 : 7) ? i : below(6);
            text += (i ? ", \"" : "\"") + std::string(names[which]) + (below(rarely) ? "\": " : "\" :");
            append_value(text, 0);
        }
        text += below(rarely) ? "}" : " } ";
        text += below(rarely) ? "\n" : below(2) ? "\r\n" : "\n\n";
    }
    return text;
}

// Append a number: integers and decimals of all sizes, with what is nearly a number.
void append_number(std::string &text) {
    if (!below(4)) text += '-';
    const auto digits = [&text](std::size_t most) {
        for (std::size_t left = below(most); left; --left) text += static_cast<char>('0' + below(10));
    };
    digits(below(3) ? 4 : 21);
    if (below(2)) text += '.', digits(below(3) ? 20 : 4);
    if (!below(20)) text += special[below(sizeof special - 1)];
}

// Records with this many columns: mostly a few, sometimes more than are looked at together.
std::string made_up_cells(std::size_t columns) {
    static const char *const cells[] = {"", "x", "12", "3", "-1.5", "0.30000000000000004", "\"a\"", "\"a, \"\"b\"\"\n\"", "NaN", "1x", "a\"b", "\"\"", "\r"};
    std::string text;
    const bool alike = below(2);  // a column has cells of one kind
    for (std::size_t lines = below(50) ? 1 + below(12) : 1500; lines; --lines) {
        for (std::size_t i = 0; i < columns; ++i) {
            if (alike ? i % 2 : below(3)) {
                append_number(text);
            } else {
                text += cells[alike ? 6 + i % 2 : below(sizeof cells / sizeof *cells)];
            }
            if (!below(alike ? 99 : 9)) text += '"' + std::string(below(200), 'y') + (below(3) ? "\"" : "\"\"\"");
            if (i + 1 < columns) text += ',';
        }
        text += below(5) ? "\n" : below(9) ? "\r\n" : "\n\n";
    }
    return text;
}

bool inside(const bushel::LineScan &scan, std::size_t size) {
    for (std::size_t field = 0; field < scan.names().size(); ++field) {
        const bushel::FieldValues &own = scan.values(field);
        if (own.size() && own.first() + static_cast<std::int64_t>(own.size()) > scan.rows()) return false;
        for (std::size_t i = 0; i < own.size(); ++i) {
            const std::int64_t line = scan.starts()[static_cast<std::size_t>(own.first()) + i];
            if (own.length()[i] && static_cast<std::size_t>(line) + own.place()[i] + own.length()[i] - 1 > size) return false;
        }
    }
    return true;
}

bool same_values(const bushel::FieldValues &a, const bushel::FieldValues &b) {
    const std::size_t count = a.size(), bytes = count * sizeof(std::uint32_t);
    return count == b.size() && (!count || (a.first() == b.first() && !std::memcmp(a.place(), b.place(), bytes) &&
                                            !std::memcmp(a.length(), b.length(), bytes) &&
                                            !std::memcmp(a.number(), b.number(), 2 * bytes) &&
                                            !std::memcmp(a.kind(), b.kind(), count)));
}

bool same(const bushel::LineScan &a, const bushel::LineScan &b) {
    if (a.names() != b.names() || a.rows() != b.rows() || a.lines() != b.lines() || a.problem() != b.problem() ||
        a.problem_offset() != b.problem_offset()) {
        return false;
    }
    for (std::size_t field = 0; field < a.names().size(); ++field) {
        if (!same_values(a.values(field), b.values(field))) return false;
    }
    return true;
}

void fail(const char *what, const std::string &text) {
    std::printf("%s\n%s\n", what, text.c_str());
    std::exit(1);
}

// Take the samples out as a block, which must have the same values, and read it with damaged bytes.
void check_block(bushel::LineScan &scan, const std::string &text) {
    using bushel::LinePart;
    const auto rows = static_cast<std::size_t>(scan.rows());
    const std::vector<std::int64_t> starts(scan.starts(), scan.starts() + rows);
    std::vector<std::vector<std::int64_t>> expected[3];
    for (std::size_t field = 0; field < scan.names().size(); ++field) {
        const bushel::FieldValues &own = scan.values(field);
        std::vector<std::int64_t> offset(rows), length(rows, -1), number(rows);
        for (std::size_t i = 0; i < own.size(); ++i) {
            const std::size_t row = static_cast<std::size_t>(own.first()) + i;
            offset[row] = own.length()[i] ? starts[row] + own.place()[i] : 0;
            length[row] = static_cast<std::int64_t>(own.length()[i]) - 1;
            number[row] = own.number()[i];
        }
        expected[0].push_back(offset), expected[1].push_back(length), expected[2].push_back(number);
    }
    const std::vector<std::uint8_t> block = scan.take();
    const auto size = static_cast<std::int64_t>(block.size());
    const std::int64_t at[] = {0, size}, first[] = {0, static_cast<std::int64_t>(rows)};
    auto copy = exact(reinterpret_cast<const char *>(block.data()), block.size());
    const bushel::LineBlocks blocks(copy.get(), block.size(), at, first, 1);
    constexpr LinePart parts[] = {LinePart::offset, LinePart::length, LinePart::number, LinePart::real, LinePart::kind};
    std::vector<std::int64_t> found(std::max<std::size_t>(rows, 20)), one(1), wanted(20), some(20);
    for (std::size_t field = 0; field < scan.names().size(); ++field) {
        for (std::size_t part = 0; part < 3; ++part) {
            blocks.read(field, parts[part], true, 0, rows, found.data());
            if (!std::equal(expected[part][field].begin(), expected[part][field].end(), found.begin())) fail("a block has other values", text);
            const std::size_t from = below(rows);
            const auto row = static_cast<std::int64_t>(from);
            blocks.read(field, parts[part], true, row, rows - from, found.data());
            const bushel::LineRows values(blocks, field, parts[part], true);
            values.take(&row, 1, one.data());
            if (found[0] != expected[part][field][from] || one[0] != found[0]) fail("a sample has other values", text);
        }
    }
    for (int round = 0; round < 20; ++round) {
        copy[below(below(2) ? std::min<std::size_t>(block.size(), 120) : block.size())] = static_cast<std::uint8_t>(generator());
        for (const LinePart part : parts) {
            const std::size_t field = below(scan.names().size() + 1);
            try {
                blocks.read(field, part, below(2), 0, rows, found.data());
            } catch (const std::invalid_argument &) {
            }
            const bushel::LineRows values(blocks, field, part, below(2));
            for (int time = 0; time < 2; ++time) {  // a damaged block is refused each time
                try {
                    for (auto &row : wanted) row = static_cast<std::int64_t>(below(rows));
                    values.take(wanted.data(), wanted.size(), some.data());
                    if (part == LinePart::offset) values.extents(wanted.data(), wanted.size(), some.data(), found.data());
                } catch (const std::invalid_argument &) {
                }
            }
        }
    }
}

// Scan lines of JSON, or records with this many columns.
void scan_all(const std::string &text, std::size_t columns) {
    std::vector<std::string> names;
    if (columns || below(4) == 0) names = {"a", "", "c", "d"};
    if (columns) names.resize(columns);
    const std::uint8_t delimiter = columns ? ',' : 0;
    const bool closed = below(2);
    bushel::LineScan scan(names, delimiter, closed, 50), plain(names, delimiter, closed, 50, false);
    const std::size_t chunk = below(3) ? text.size() + 1 : 1 + below(200);
    std::size_t at = 0, window = chunk;
    while (at < text.size()) {
        const std::size_t size = std::min(window, text.size() - at);
        const auto copy = exact(text.data() + at, size);
        const bool last = at + size == text.size();
        const std::size_t used = scan.feed(copy.get(), size, static_cast<std::int64_t>(at), last);
        const std::size_t expected = plain.feed(copy.get(), size, static_cast<std::int64_t>(at), last);
        if (used != expected || !same(scan, plain)) fail("vectors find other values than single bytes", text);
        if (!inside(scan, text.size())) fail("a value is outside the file", text);
        if (below(2) && scan.rows()) check_block(scan, text), plain.clear();
        if (!scan.problem().empty()) {
            const std::size_t end = text.find('\n', static_cast<std::size_t>(scan.problem_offset()));
            if (end == std::string::npos) break;
            at = end + 1;
            window = chunk;
            continue;
        }
        at += used;
        window = used ? chunk : 2 * window;
    }
}

}  // namespace

int main(int count, char **arguments) {
    long cases = 0;
    for (int round = 0; round < std::atoi(arguments[1]); ++round) {
        for (int file = 2; file < count; ++file) {
            std::ifstream stream(arguments[file], std::ios::binary);
            const std::string base((std::istreambuf_iterator<char>(stream)), {});
            for (int number = 0; number < 40; ++number, ++cases) {
                const std::string text = damaged(base), lines = made_up();
                const std::size_t columns = below(4) ? 4 : 1 + below(3);
                const std::string records = made_up_cells(columns);
                scan_all(text, 0), scan_all(text, 4);
                scan_all(lines, 0), scan_all(damaged(lines), 0);
                scan_all(records, columns), scan_all(damaged(records), columns);
                const auto copy = exact(text.data(), text.size());
                try {
                    bushel::first_csv_record(copy.get(), text.size(), ',', below(2), 20);
                } catch (const std::invalid_argument &) {
                }
            }
        }
    }
    std::printf("%ld cases\n", cases);
}
