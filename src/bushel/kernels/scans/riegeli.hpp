// Riegeli, the layout of ArrayRecord files: chunks one after another, in a file whose blocks of 64 KiB begin with a header.
// A position counts the bytes of the file without these headers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/byte_source.hpp"

namespace bushel {

// The chunks of simple records, with an element for each.
struct RiegeliChunks {
    std::vector<std::int64_t> start, length;  // position and bytes of the data
    std::vector<std::int64_t> records;        // number, at least 1
    std::vector<std::int64_t> expanded;       // bytes of all records
    std::vector<std::int64_t> sizes;          // bytes of the lengths of the records, as they are stored
    std::vector<std::int64_t> values;         // position of the first record, after these lengths
    std::vector<std::uint8_t> compression;    // the byte that stands for it; 0: none
    std::int64_t end = 0;                     // position after the last chunk
};

// Read the headers of chunks from a position on, up to `end`, to the chunk that is not as chunks usually are, or to as
// many as `most`.
RiegeliChunks scan_riegeli(ByteSource &source, std::int64_t position, std::int64_t end, std::size_t most);

}  // namespace bushel
