// Direct reads: from the disk into memory of the caller, without the system's page cache (O_DIRECT of Linux).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/batched_read.hpp"

namespace bushel {

// The power of two that offsets, sizes and addresses of direct reads of an open file must be multiples of; 0 if its file
// system does not offer such reads, or does not tell (Linux before 6.1, tmpfs, network file systems).
std::int64_t direct_alignment(int file);

// Copy a range of a file that is open for direct reads. Return the number of bytes read: less than `length` at the end
// of the file, -1 for an error, which is in errno.
std::int64_t pread_direct(int file, std::int64_t alignment, std::uint8_t *out, std::int64_t offset,
                          std::int64_t length);

// Give rows of files that are open for direct reads to the sink. They are sorted by offset; rows that touch share a
// request, and all requests run at the same time. The batch must be checked.
void read_rows_directly(const Batch &batch, const std::vector<std::size_t> &rows, RowSink &sink);

}  // namespace bushel
