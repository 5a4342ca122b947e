// Gathering numbers: the values of many samples, from their files straight into arrays.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "files/mapped_file.hpp"

namespace bushel {

// The data after the header of a stored value, and their destination.
enum class NumberKind {
    bytes,             // copied as they are
    signed_integer,    // little-endian, at most 8 bytes: int64
    unsigned_integer,  // the same without a sign
    real,              // float32 or float64: float64
    whole_real,        // float32 or float64 that is an integer: int64
    decimal,           // an integer as decimal text: int64
};

// The header of stored values of a length, and the CRC-32 of it.
struct NumberForm {
    std::string header;
    std::uint32_t sum = 0;
};

// The headers of a codec's stored values, by the length of header and content together.
using NumberForms = std::unordered_map<std::int64_t, NumberForm>;

// One field in one shard. The arrays have an element per sample and are borrowed.
struct NumberColumn {
    const MappedFile *file = nullptr;
    const std::int64_t *offset = nullptr;
    const std::int64_t *length = nullptr;
    const std::uint32_t *crc = nullptr;  // null: not checked
    NumberKind kind = NumberKind::bytes;
    const NumberForms *forms = nullptr;  // null: no header, and any length that the kind allows

    // The bytes of content in a stored value of this length, and its header; -1 if the value has another form.
    std::int64_t content(std::int64_t stored, const NumberForm *&form) const;
};

struct NumberShard {
    std::int64_t first = 0;  // position of its first sample
    std::int64_t samples = 0;
    std::vector<NumberColumn> columns;
};

// Shards in ascending order.
using NumberShards = std::vector<NumberShard>;

// Where the contents of samples go.
struct NumberTargets {
    std::vector<std::uint8_t *> out;
    std::vector<std::int64_t> room;  // bytes
    std::string fill;                // fills the rest of the room, over and over; empty: there must be no rest
    // bytes of each content that come before those that fill its room, and any may come after them; empty: each content
    // is gathered whole
    std::vector<std::int64_t> skip;
};

// Gather the values of one column. Samples whose values cannot be gathered, for any reason, are appended to `bad` by
// their places; of their rooms, the contents are arbitrary. Return whether any value was not in memory. A file that has
// shrunk is an ExtentError.
bool gather_numbers(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count,
                    const NumberTargets &targets, std::vector<std::int64_t> &bad);

// Write the number of a stored value, 8 bytes, as `column` says; only its kind and forms are used. Return whether it
// could.
bool decode_number(const NumberColumn &column, const std::uint8_t *data, std::int64_t length, std::uint8_t *out);

// Find the bytes of content of each sample's value, -1 if it cannot be gathered. No data are read.
void measure_numbers(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count,
                     std::int64_t *sizes);

// Ask the system for the values of one column that have not been in memory yet.
void prefetch_numbers(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count);

}  // namespace bushel
