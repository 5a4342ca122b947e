// Reading many extents at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mapped_file.hpp"

namespace bushel {

// Rows of (file, offset, length); borrowed arrays.
struct Batch {
    std::vector<const MappedFile *> files;  // by file number; null where no row lies
    const std::int32_t *file = nullptr;     // null: all rows lie in files[0]
    const std::int64_t *offset = nullptr;
    const std::int64_t *length = nullptr;  // -1: a missing field, nothing is read
    const std::uint32_t *crc = nullptr;    // null: not checked
    std::size_t rows = 0;

    const MappedFile &file_of(std::size_t row) const { return *files[file ? static_cast<std::size_t>(file[row]) : 0]; }
    bool missing(std::size_t row) const { return length[row] == -1; }
};

// Checks every row against its file and that no file has shrunk. Returns the sum of the lengths. Touches no data.
std::int64_t check(const Batch &batch);

// Whether every row was seen in memory before.
bool in_memory(const Batch &batch);

// Starts reading, in the background, what was not seen in memory yet. The batch must have been checked.
void announce(const Batch &batch);

// Copies each row that is not missing to out[row] and compares its checksum. The batch must have been checked.
// A checksum that differs does not end the copy: the first such row is thrown at the end.
void copy(const Batch &batch, std::uint8_t *const *out);

// The checksum of each row, 0 for a missing one. The batch must have been checked.
void checksum(const Batch &batch, std::uint32_t *out);

}  // namespace bushel
