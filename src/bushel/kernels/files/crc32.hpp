// CRC-32 as in zlib, PNG and gzip (polynomial 0x04C11DB7, reflected).
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Return the checksum of the bytes before, whose checksum is `value` (0 if there are none), and these bytes.
std::uint32_t crc32(const std::uint8_t *data, std::size_t length, std::uint32_t value = 0);

}  // namespace bushel
