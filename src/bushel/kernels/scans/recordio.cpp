#include "scans/recordio.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/bytes.hpp"
#include "common/simd.hpp"
#include "files/crc32.hpp"

namespace bushel {

namespace {

constexpr std::uint32_t magic = 0xCED7230A;
constexpr std::uint32_t max_length = (1u << 29) - 1;
constexpr std::int64_t header_size = 8;

constexpr std::int64_t max_dense_stride = 16 * 1024;
constexpr std::int64_t large_window = 256 * 1024;
constexpr std::int64_t small_window = 4 * 1024;

enum Flag : std::uint32_t { whole = 0, first = 1, middle = 2, last = 3 };

void put_word(std::string &out, std::uint32_t word) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(word >> (8 * i)));
}

struct Part {
    std::uint32_t flag;
    std::int64_t length;
    const char *problem;  // null: none
};

// Parse the 8 bytes of a header. `open`: whether a record has begun; `rest`: bytes after the header.
Part read_part(const std::uint8_t *header, bool open, std::int64_t rest) {
    if (little_32(header) != magic) return {whole, 0, "magic word is wrong"};
    const std::uint32_t lrec = little_32(header + 4);
    const std::uint32_t flag = lrec >> 29;
    const std::int64_t length = lrec & max_length;
    const char *problem = nullptr;
    if (flag > last)
        problem = "part flag is not 0 to 3";
    else if (open && (flag == whole || flag == first))
        problem = "a record starts before the last part of the one before it";
    else if (!open && (flag == middle || flag == last))
        problem = "a middle or last part without a first";
    else if ((flag == first || flag == middle) && length % 4)
        problem = "length of a part that is not the last is not a multiple of 4";
    else if (length > rest)
        problem = "part goes beyond the end of the file";
    return {flag, length, problem};
}

// Whether a word is the magic one: in loops without a branch, which the compiler vectorises.
__attribute__((always_inline)) inline bool search(const std::uint8_t *payload, std::size_t words) {
    constexpr std::size_t block = 1024;
    constexpr std::uint8_t bytes[] = {magic & 0xFF, magic >> 8 & 0xFF, magic >> 16 & 0xFF, magic >> 24};
    std::uint32_t pattern;
    std::memcpy(&pattern, bytes, sizeof pattern);
    for (std::size_t at = 0; at < words; at += block) {
        const std::size_t end = std::min(at + block, words);
        std::uint32_t matches = 0;
        for (std::size_t i = at; i < end; ++i) {
            std::uint32_t word;
            std::memcpy(&word, payload + 4 * i, sizeof word);
            matches |= word == pattern;
        }
        if (matches) return true;
    }
    return false;
}

bool search_scalar(const std::uint8_t *payload, std::size_t words) { return search(payload, words); }
#ifdef BUSHEL_X86
BUSHEL_AVX2 bool search_avx2(const std::uint8_t *payload, std::size_t words) { return search(payload, words); }
#endif

}  // namespace

RecordioRecords scan_recordio(ByteSource &source, std::int64_t start) {
    RecordioRecords records;
    records.end = start;
    const std::int64_t size = source.size();
    std::int64_t pos = start, begin = -1, stride = 0;
    std::int32_t parts = 0;

    const auto stop = [&](const char *problem) {
        records.problem = problem;
        records.problem_offset = pos;
    };
    while (pos < size) {
        if (size - pos < header_size) return stop("header is cut by the end of the file"), records;
        const std::int64_t wish = std::min(stride < max_dense_stride ? large_window : small_window, size - pos);
        const Part part = read_part(source.view(pos, header_size, wish), begin >= 0, size - pos - header_size);
        if (part.problem) return stop(part.problem), records;
        if (begin < 0) begin = pos, parts = 0;
        if (parts == std::numeric_limits<std::int32_t>::max()) return stop("begin of too many parts"), records;
        ++parts;
        const std::int64_t end = pos + header_size + part.length;
        const std::int64_t next =
            std::min(end + (4 - part.length % 4) % 4, size);  // missing padding after the last record is accepted
        stride = stride ? (stride * 3 + (next - pos)) / 4 : next - pos;
        pos = next;
        if (part.flag == whole || part.flag == last) {
            records.offset.push_back(begin);
            records.span.push_back(end - begin - header_size);
            records.parts.push_back(parts);
            records.end = next;
            begin = -1;
        }
    }
    if (begin >= 0) stop("the file ends before the last part of a begin");
    return records;
}

std::string join_recordio(const std::uint8_t *raw, std::size_t length) {
    std::string payload;
    payload.reserve(length);
    const auto size = static_cast<std::int64_t>(length);
    for (std::int64_t pos = 0;;) {
        if (size - pos < header_size)
            throw std::invalid_argument("record is cut inside a header, at byte " + std::to_string(pos));
        const Part part = read_part(raw + pos, pos > 0, size - pos - header_size);
        if (part.problem) throw std::invalid_argument(std::string(part.problem) + ", at byte " + std::to_string(pos));
        if (pos > 0) put_word(payload, magic);
        pos += header_size;
        payload.append(reinterpret_cast<const char *>(raw + pos), static_cast<std::size_t>(part.length));
        pos += part.length;
        if (part.flag == whole || part.flag == last) {
            if (pos != size)
                throw std::invalid_argument("bytes after the end of the record, at byte " + std::to_string(pos));
            return payload;
        }
    }
}

bool contains_magic(const std::uint8_t *payload, std::size_t length) {
    static const auto words_contain_magic = select<bool (*)(const std::uint8_t *, std::size_t)>({
#ifdef BUSHEL_X86
        {Simd::avx2, search_avx2},
#endif
        {Simd::scalar, search_scalar},
    });
    return words_contain_magic(payload, length / 4);
}

std::optional<std::uint32_t> crc32_unless_magic(const std::uint8_t *payload, std::size_t length) {
    constexpr std::size_t block = 16 * 1024;  // stays in the first cache; a multiple of a word
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < length; at += block) {
        const std::size_t size = std::min(block, length - at);
        if (contains_magic(payload + at, size)) return std::nullopt;
        sum = crc32(payload + at, size, sum);
    }
    return sum;
}

std::string split_recordio(const std::uint8_t *payload, std::size_t length) {
    if (length > max_length) {
        throw std::invalid_argument("a record of " + std::to_string(length) +
                                    " bytes is too long: RecordIO allows at most 536870911");
    }
    std::string framed;
    framed.reserve(length + 16);
    std::size_t begin = 0;
    const auto put_part = [&](Flag flag, std::size_t end) {
        put_word(framed, magic);
        put_word(framed, flag << 29 | static_cast<std::uint32_t>(end - begin));
        framed.append(reinterpret_cast<const char *>(payload + begin), end - begin);
    };
    bool cut = false;
    for (std::size_t at = 0; at + 4 <= length; at += 4) {
        if (little_32(payload + at) != magic) continue;
        put_part(cut ? middle : first, at);
        begin = at + 4;
        cut = true;
    }
    put_part(cut ? last : whole, length);
    framed.append((4 - framed.size() % 4) % 4, '\0');
    return framed;
}

}  // namespace bushel
