// CRC-32 as in zlib, PNG and gzip (polynomial 0x04C11DB7, reflected).
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Continues `value`, the checksum of what came before (0 at the start).
std::uint32_t crc32(const std::uint8_t *data, std::size_t length, std::uint32_t value = 0);

}  // namespace bushel
