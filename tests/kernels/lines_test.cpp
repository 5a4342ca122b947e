// Damaged lines, straight to the scans of lines and of values with lengths: a program that is built with sanitizers.
//
//     lines_test ROUNDS FILE...
//
// Each round damages each file 40 times, and scans it as JSON and as CSV, in chunks that are copied into memory of exactly
// their size, so that any access beyond them is found. It prints the number of cases, and fails for an extent outside.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "scans/byte_arrays.hpp"
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

bool inside(const bushel::LineScan &scan, std::size_t size) {
    for (std::size_t field = 0; field < scan.names().size(); ++field) {
        const bushel::FieldValues &own = scan.values(field);
        for (std::size_t i = 0; i < own.row.size(); ++i) {
            if (own.offset[i] < 0 || own.length[i] < 0 || own.row[i] >= scan.rows()) return false;
            if (static_cast<std::size_t>(own.offset[i] + own.length[i]) > size) return false;
        }
    }
    return true;
}

bool scan_all(const std::string &text, bool cells) {
    std::vector<std::string> names;
    if (cells) names = {"a", "", "c", "d"};
    bushel::LineScan scan(names, cells ? ',' : 0, false, 50);
    const std::size_t chunk = below(3) ? text.size() + 1 : 1 + below(200);
    std::size_t at = 0, window = chunk;
    while (at < text.size()) {
        const std::size_t size = std::min(window, text.size() - at);
        const auto copy = exact(text.data() + at, size);
        const std::size_t used = scan.feed(copy.get(), size, static_cast<std::int64_t>(at), at + size == text.size());
        if (!inside(scan, text.size())) return false;
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
    return true;
}

}  // namespace

int main(int count, char **arguments) {
    long cases = 0;
    for (int round = 0; round < std::atoi(arguments[1]); ++round) {
        for (int file = 2; file < count; ++file) {
            std::ifstream stream(arguments[file], std::ios::binary);
            const std::string base((std::istreambuf_iterator<char>(stream)), {});
            for (int number = 0; number < 40; ++number, ++cases) {
                const std::string text = damaged(base);
                if (!scan_all(text, false) || !scan_all(text, true)) {
                    std::puts("a value is outside the file");
                    return 1;
                }
                const auto copy = exact(text.data(), text.size());
                try {
                    bushel::first_csv_record(copy.get(), text.size(), ',', below(2), 20);
                } catch (const std::invalid_argument &) {
                }
                try {
                    bushel::find_byte_arrays(copy.get(), text.size(), static_cast<std::int64_t>(below(50)));
                } catch (const std::invalid_argument &) {
                }
            }
        }
    }
    std::printf("%ld cases\n", cases);
}
