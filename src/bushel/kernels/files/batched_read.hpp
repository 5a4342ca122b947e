// Reading many extents at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/mapped_file.hpp"

namespace bushel {

// Rows of (file, offset, length). The arrays are borrowed.
struct Batch {
    std::vector<const MappedFile *> files;  // by file number; null if no row refers to it
    const std::int32_t *file = nullptr;     // null: all rows are in files[0]
    const std::int64_t *offset = nullptr;
    const std::int64_t *length = nullptr;  // -1: a missing field; nothing is read
    const std::uint32_t *crc = nullptr;    // null: not checked
    std::size_t rows = 0;

    const MappedFile &file_of(std::size_t row) const { return *files[file ? static_cast<std::size_t>(file[row]) : 0]; }
    bool missing(std::size_t row) const { return length[row] == -1; }
};

// Check that every row is inside its file and that no file has shrunk. Return the sum of the lengths. No data are
// read.
std::int64_t check(const Batch &batch);

// Whether every row has been in memory before.
bool in_memory(const Batch &batch);

// Start to read, in the background, the rows that have not been in memory yet. The batch must be checked.
void prefetch(const Batch &batch);

// Load up to `limit` bytes of a row into the processor's cache, if it is in memory. The batch must be checked.
void load_into_cache(const Batch &batch, std::size_t row, std::int64_t limit);

// Where the bytes of rows go.
class RowSink {
public:
    virtual ~RowSink() = default;

    // Where to read a row that is not copied from the map. `take` follows with this address.
    virtual std::uint8_t *room(std::size_t row) = 0;

    // Take a row, whose bytes are at `data` until this returns. An empty row may have no address. The bytes of another
    // row, which comes soon, are at `next`, if that is not null.
    virtual void take(std::size_t row, const std::uint8_t *data, const std::uint8_t *next) = 0;
};

// Give each row that is not missing to the sink, in any order. The batch must be checked. Return whether a row was not
// in memory.
bool read_rows(const Batch &batch, RowSink &sink);

// The number of batches of this thread so far that had a row which was not in memory.
std::int64_t cold_reads();

// Copy each row that is not missing to out[row] and compare its checksum. The batch must be checked. A wrong checksum
// does not end the copy: the ExtentError of the first such row is thrown at the end.
void copy(const Batch &batch, std::uint8_t *const *out);

// Compute the checksum of each row, 0 for a missing one. The batch must be checked.
void checksum(const Batch &batch, std::uint32_t *out);

}  // namespace bushel
