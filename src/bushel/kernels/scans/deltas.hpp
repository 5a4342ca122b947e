// The delta encodings of Parquet. Sizes and counts are checked before memory is taken; damaged bytes throw
// std::invalid_argument.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

struct Deltas {
    std::vector<std::int64_t> numbers;
    std::size_t used = 0;  // bytes that they take; others may follow
};

// Decode numbers of DELTA_BINARY_PACKED: `count` of them, or as many as the bytes announce if it is negative.
Deltas decode_deltas(const std::uint8_t *data, std::size_t size, std::int64_t count);

// Write the byte arrays of DELTA_BYTE_ARRAY one after another: value i is the first `prefix[i]` bytes of the one before
// it, and then `length[i]` of the bytes, in their order. Return how many bytes were written.
std::size_t join_prefixed(const std::uint8_t *data, std::size_t size, const std::int64_t *prefix,
                          const std::int64_t *length, std::size_t count, std::uint8_t *out, std::size_t room);

}  // namespace bushel
