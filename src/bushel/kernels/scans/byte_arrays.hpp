// Values that follow each other, each after its length in 4 bytes, as in pages of Parquet.
#pragma once
#include <cstdint>
#include <vector>

#include "files/byte_source.hpp"

namespace bushel {

struct ByteArrays {
    std::vector<std::int64_t> offset, length;
};

// Return where `count` values are in the source, which begin in its `size` bytes from `start` on. Bytes that end inside
// one throw std::invalid_argument. The memory is bounded by the number of bytes.
ByteArrays find_byte_arrays(FileByteSource &source, std::int64_t start, std::int64_t size, std::int64_t count);
ByteArrays find_byte_arrays(BufferByteSource &source, std::int64_t start, std::int64_t size, std::int64_t count);

}  // namespace bushel
