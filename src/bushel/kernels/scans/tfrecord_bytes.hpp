// The bytes of TFRecord files and of the messages in them, for both scans.
#pragma once
#include <cstddef>
#include <cstdint>

#include "files/crc32c.hpp"

namespace bushel::tfrecord_bytes {

constexpr std::size_t head_size = 12, tail_size = 4;  // a length and its checksum; the checksum of the data
constexpr std::uint64_t max_length = std::uint64_t{1} << 46;
constexpr int max_varint = 10;
constexpr std::uint8_t bytes_kind = 1, floats_kind = 2, integers_kind = 3;

inline std::uint32_t word_at(const std::uint8_t *data) {
    return data[0] | std::uint32_t{data[1]} << 8 | std::uint32_t{data[2]} << 16 | std::uint32_t{data[3]} << 24;
}

inline std::uint32_t masked(std::uint32_t sum) { return ((sum >> 15) | (sum << 17)) + 0xa282ead8u; }

// Whether the length at the start of a head has its checksum.
inline bool has_checksum(const std::uint8_t *head) { return word_at(head + 8) == masked(crc32c(head, 8)); }

inline std::uint64_t length_of(const std::uint8_t *head) { return word_at(head) | std::uint64_t{word_at(head + 4)} << 32; }

// Read a varint at `at`, which moves past it. Return false if it does not end within ten bytes and before `end`.
inline bool read_varint(const std::uint8_t *&at, const std::uint8_t *end, std::uint64_t &value) {
    if (at < end && *at < 0x80) {  // the usual case
        value = *at++;
        return true;
    }
    value = 0;
    for (int i = 0; i < max_varint && at < end; ++i) {
        const std::uint8_t byte = *at++;
        value |= std::uint64_t{byte & 0x7Fu} << (7 * i);
        if (byte < 0x80) return i < max_varint - 1 || byte <= 1;
    }
    return false;
}

// The tag of a field that has its length before its bytes.
constexpr std::uint8_t delimited(std::uint8_t number) { return static_cast<std::uint8_t>(number << 3 | 2); }

}  // namespace bushel::tfrecord_bytes
