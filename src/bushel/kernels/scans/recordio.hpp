// MXNet (dmlc) RecordIO: scanning files, and joining and splitting records.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/byte_source.hpp"

namespace bushel {

struct RecordioRecords {
    std::vector<std::int64_t> offset, span;
    std::vector<std::int32_t> parts;
    std::int64_t end = 0;
    std::string problem;  // empty: none
    std::int64_t problem_offset = -1;
};

RecordioRecords scan_recordio(ByteSource &source, std::int64_t start);

// Return the payload of a record. Throws std::invalid_argument if `raw` is not exactly one record.
std::string join_recordio(const std::uint8_t *raw, std::size_t length);

// Whether an aligned word of the payload is the magic word, so that the record must be split.
bool contains_magic(const std::uint8_t *payload, std::size_t length);

// The CRC-32 of a payload; none if it contains the magic word. Each byte is taken from memory once for both.
std::optional<std::uint32_t> crc32_unless_magic(const std::uint8_t *payload, std::size_t length);

// Return the framed bytes of a record. Throws std::invalid_argument if the payload is too long for the format.
std::string split_recordio(const std::uint8_t *payload, std::size_t length);

}  // namespace bushel
