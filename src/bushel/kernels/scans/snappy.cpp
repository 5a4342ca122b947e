#include "scans/snappy.hpp"

#include <algorithm>
#include <stdexcept>

#include "common/bytes.hpp"

namespace bushel {

namespace {

[[noreturn]] void fail(const char *what) { throw std::invalid_argument(what); }

// A literal, whose bytes follow the tag, or a copy of bytes that are `distance` before.
struct Tag {
    std::size_t head;  // bytes of the tag itself
    std::uint64_t size;
    std::uint64_t distance;  // 0: a literal
};

std::uint32_t number_at(const std::uint8_t *data, std::size_t bytes) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) number |= std::uint32_t{data[i]} << (8 * i);
    return number;
}

inline Tag tag_at(const std::uint8_t *data, std::size_t left) {
    const std::uint8_t first = data[0];
    const std::size_t bits = first >> 2;
    const std::size_t more = (first & 3) == 0 ? (bits < 60 ? 0 : bits - 59) : (first & 3) == 3 ? 4 : first & 3;
    if (left < 1 + more) fail("the data are truncated");
    switch (first & 3) {
        case 0:
            return {1 + more, (more ? std::uint64_t{number_at(data + 1, more)} : bits) + 1, 0};
        case 1: {
            const std::uint64_t distance = std::uint64_t{first & 0xE0u} << 3 | data[1];
            if (!distance) break;
            return {2, (bits & 7) + 4, distance};
        }
        default: {
            const std::uint64_t distance = number_at(data + 1, more);
            if (!distance) break;
            return {1 + more, bits + 1, distance};
        }
    }
    fail("a copy has no distance");
}

// Return the declared size of the stream; `head` becomes the number of its bytes.
std::uint64_t declared_size(const std::uint8_t *data, std::size_t size, std::size_t &head) {
    constexpr std::size_t most_bytes = 5;
    const std::uint8_t *at = data;
    std::uint64_t value;
    if (!read_varint(at, data + std::min(size, most_bytes), value) || value > 0xFFFFFFFF) fail("the size is not a number");
    head = static_cast<std::size_t>(at - data);
    return value;
}

}  // namespace

SnappyParts scan_snappy(const std::uint8_t *data, std::size_t size, std::int64_t spacing) {
    struct Border {
        std::int64_t position;
        std::size_t offset;
    };
    std::size_t at = 0;
    const auto whole = static_cast<std::int64_t>(declared_size(data, size, at));
    std::vector<Border> borders{{0, at}};
    std::int64_t position = 0, next = spacing;
    while (at < size) {
        const Tag tag = tag_at(data + at, size - at);
        if (tag.size > static_cast<std::uint64_t>(whole - position)) fail("it has more bytes than it says");
        if (tag.distance > static_cast<std::uint64_t>(position)) fail("a copy reaches before the start");
        if (tag.distance) {
            const std::int64_t reached = position - static_cast<std::int64_t>(tag.distance);
            while (borders.back().position > reached) borders.pop_back();
        } else if (tag.size > size - at - tag.head) {
            fail("the data are truncated");
        }
        at += tag.head + (tag.distance ? 0 : static_cast<std::size_t>(tag.size));
        position += static_cast<std::int64_t>(tag.size);
        if (position < next) continue;
        if (position % spacing == 0 && position < whole) borders.push_back({position, at});
        next = position - position % spacing + spacing;
    }
    if (position != whole) fail("it has fewer bytes than it says");

    SnappyParts parts;
    for (std::size_t i = 0; whole && i < borders.size(); ++i) {
        const bool last = i + 1 == borders.size();
        const std::size_t begin = borders[i].offset, end = last ? size : borders[i + 1].offset;
        const std::int64_t stop = last ? whole : borders[i + 1].position;
        const Tag tag = tag_at(data + begin, end - begin);
        const bool literal =
            !tag.distance && static_cast<std::int64_t>(tag.size) == stop - borders[i].position;
        parts.start.push_back(stop);
        parts.offset.push_back(static_cast<std::int64_t>(begin + (literal ? tag.head : 0)));
        parts.length.push_back(static_cast<std::int64_t>(literal ? tag.size : end - begin));
        parts.literal.push_back(literal);
    }
    return parts;
}

}  // namespace bushel
