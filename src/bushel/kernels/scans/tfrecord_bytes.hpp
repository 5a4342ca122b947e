// The bytes of TFRecord files and of the messages in them, for both scans.
#pragma once
#include <cstddef>
#include <cstdint>

#include "common/bytes.hpp"
#include "files/crc32c.hpp"

namespace bushel::tfrecord_bytes {

constexpr std::size_t head_size = 12, tail_size = 4;  // a length and its checksum; the checksum of the data
constexpr std::uint64_t max_length = std::uint64_t{1} << 46;
constexpr std::uint8_t bytes_kind = 1, floats_kind = 2, integers_kind = 3;

inline std::uint32_t masked(std::uint32_t sum) { return ((sum >> 15) | (sum << 17)) + 0xa282ead8u; }

// Whether the length at the start of a head has its checksum.
inline bool has_checksum(const std::uint8_t *head) { return little_32(head + 8) == masked(crc32c(head, 8)); }

inline std::uint64_t length_of(const std::uint8_t *head) { return little_64(head); }

// The tag of a field that has its length before its bytes.
constexpr std::uint8_t delimited(std::uint8_t number) { return static_cast<std::uint8_t>(number << 3 | 2); }

}  // namespace bushel::tfrecord_bytes
