// Extents: which of them are not inside their file.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// Return the first extent that is not inside a file of `size` bytes, or -1. A length of -1 means a missing value,
// at any offset.
std::int64_t first_outside(const std::int64_t *offset, const std::int64_t *length, std::size_t count, std::int64_t size);

}  // namespace bushel
