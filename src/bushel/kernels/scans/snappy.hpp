// A walk over the tags of a raw Snappy stream, which finds where a reader may begin.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// The parts of a stream that refer to no bytes before them.
struct SnappyParts {
    std::vector<std::int64_t> start{0};        // position of each in the expanded bytes, and their number
    std::vector<std::int64_t> offset, length;  // its tags; of a literal, its bytes
    std::vector<std::uint8_t> literal;         // whether it is a single literal
};

// Divide a stream at the multiples of `spacing` expanded bytes that no literal and no copy reaches across. A stream
// that is damaged throws std::invalid_argument. The work is bounded by the size of the stream.
SnappyParts scan_snappy(const std::uint8_t *data, std::size_t size, std::int64_t spacing);

}  // namespace bushel
