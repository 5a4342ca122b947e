// CRC-32 as in zlib, PNG and gzip (polynomial 0x04C11DB7, reflected).
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Return the checksum of `data`, continued from `value`, the checksum of the bytes before it (0 at the start).
std::uint32_t crc32(const std::uint8_t *data, std::size_t length, std::uint32_t value = 0);

// Return the checksum of bytes, given the checksums of their beginning and of the `length` bytes after it.
std::uint32_t join_crc32(std::uint32_t beginning, std::uint32_t rest, std::uint64_t length);

}  // namespace bushel
