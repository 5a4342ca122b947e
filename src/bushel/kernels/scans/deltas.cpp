#include "scans/deltas.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "scans/hybrid.hpp"

namespace bushel {

namespace {

constexpr std::uint64_t most_numbers = 1 << 24;  // of a section
constexpr std::uint64_t longest_part = 1 << 16;  // numbers that are packed with the same width; writers have 32

std::uint64_t signed_varint(const std::uint8_t *&at, const std::uint8_t *end) {
    const std::uint64_t value = read_varint(at, end);
    return value >> 1 ^ -(value & 1);
}

// Return `width` bits from bit `bit` on; nine bytes after the first one can be read.
std::uint64_t bits_at(const std::uint8_t *data, std::uint64_t bit, unsigned width) {
    std::uint64_t word;
    std::memcpy(&word, data + (bit >> 3), 8);
    const unsigned shift = bit & 7;
    word >>= shift;
    if (shift + width > 64) word |= std::uint64_t{data[(bit >> 3) + 8]} << (64 - shift);
    return width == 64 ? word : word & ((std::uint64_t{1} << width) - 1);
}

}  // namespace

Deltas decode_deltas(const std::uint8_t *data, std::size_t size, std::int64_t count) {
    const std::uint8_t *at = data, *const end = data + size;
    const std::uint64_t block = read_varint(at, end), parts = read_varint(at, end), total = read_varint(at, end);
    std::uint64_t value = signed_varint(at, end);
    if (total > most_numbers || (count >= 0 && total != static_cast<std::uint64_t>(count))) {
        throw std::invalid_argument(std::to_string(total) + " delta-encoded numbers are announced, where " +
                                    std::to_string(count < 0 ? most_numbers : static_cast<std::uint64_t>(count)) +
                                    (count < 0 ? " are read at most" : " are expected"));
    }
    const std::uint64_t length = parts ? block / parts : 0;
    if (!length || block % parts || length % 8 || length > longest_part) {
        throw std::invalid_argument("delta-encoded numbers are in blocks of " + std::to_string(block) + " with " +
                                    std::to_string(parts) + " parts");
    }
    const auto truncated = [] { throw std::invalid_argument("delta-encoded numbers end inside a block"); };
    Deltas deltas;
    std::vector<std::uint8_t> tail;  // the last bytes, and some after them that can be read
    if (total) deltas.numbers.push_back(static_cast<std::int64_t>(value));
    while (deltas.numbers.size() < total) {
        const std::uint64_t least = signed_varint(at, end);
        const std::uint8_t *const widths = at;
        if (static_cast<std::uint64_t>(end - at) < parts) truncated();
        at += parts;
        for (std::uint64_t part = 0; part < parts && deltas.numbers.size() < total; ++part) {  // the others have none
            const unsigned width = widths[part];
            if (width > 64) {
                throw std::invalid_argument("delta-encoded numbers of " + std::to_string(width) + " bits are announced");
            }
            const std::uint64_t bytes = length / 8 * width;
            if (static_cast<std::uint64_t>(end - at) < bytes) truncated();
            const std::uint8_t *packed = at;
            if (static_cast<std::uint64_t>(end - at) < bytes + 16) {
                tail.assign(static_cast<std::size_t>(bytes) + 16, 0);
                std::copy(at, at + bytes, tail.begin());
                packed = tail.data();
            }
            const std::uint64_t numbers = std::min<std::uint64_t>(length, total - deltas.numbers.size());
            const std::size_t first = deltas.numbers.size();
            deltas.numbers.resize(first + static_cast<std::size_t>(numbers));
            for (std::uint64_t i = 0; i < numbers; ++i) {
                value += least + (width ? bits_at(packed, i * width, width) : 0);
                deltas.numbers[first + static_cast<std::size_t>(i)] = static_cast<std::int64_t>(value);
            }
            at += bytes;
        }
    }
    deltas.used = static_cast<std::size_t>(at - data);
    return deltas;
}

std::size_t join_prefixed(const std::uint8_t *data, std::size_t size, const std::int64_t *prefix,
                          const std::int64_t *length, std::size_t count, std::uint8_t *out, std::size_t room) {
    std::size_t at = 0, before = 0;  // bytes written, and the bytes of the last value
    for (std::size_t i = 0; i < count; ++i) {
        if (prefix[i] < 0 || static_cast<std::uint64_t>(prefix[i]) > before) {
            throw std::invalid_argument("a byte array begins with " + std::to_string(prefix[i]) +
                                        " bytes of the one before it, which has " + std::to_string(before));
        }
        if (length[i] < 0 || static_cast<std::uint64_t>(length[i]) > size) {
            throw std::invalid_argument("byte arrays take more bytes than there are");
        }
        const auto shared = static_cast<std::size_t>(prefix[i]), rest = static_cast<std::size_t>(length[i]);
        if (shared + rest > room - at) throw std::invalid_argument("byte arrays take more bytes than they have room");
        std::copy_n(out + at - before, shared, out + at);
        std::copy_n(data, rest, out + at + shared);
        data += rest, size -= rest, before = shared + rest, at += before;
    }
    return at;
}

}  // namespace bushel
