// Values that follow each other, each after its length in 4 bytes, as in pages of Parquet.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

struct ByteArrays {
    std::vector<std::int64_t> offset, length;
};

// Return where `count` values lie. Bytes that end inside one throw std::invalid_argument. The memory is bounded by the
// number of bytes.
ByteArrays find_byte_arrays(const std::uint8_t *data, std::size_t size, std::int64_t count);

}  // namespace bushel
