// CRC-32C (Castagnoli), the checksum of TFRecord.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

std::uint32_t crc32c(const std::uint8_t *data, std::size_t length);

}  // namespace bushel
