// MXNet (dmlc) RecordIO: finding, joining and splitting records.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "source.hpp"

namespace bushel {

struct RecordioRecords {
    std::vector<std::int64_t> offset, span;
    std::vector<std::int32_t> parts;
    std::int64_t end = 0;
    std::string problem;  // empty: none
    std::int64_t problem_offset = -1;
};

RecordioRecords scan_recordio(Source &source, std::int64_t start);

// Throws std::invalid_argument when `raw` is not exactly one record.
std::string join_recordio(const std::uint8_t *raw, std::size_t length);

// Whether an aligned word of the payload is the magic one, so that the record must be split.
bool holds_magic(const std::uint8_t *payload, std::size_t length);

// Throws std::invalid_argument when the payload is too long for the format.
std::string split_recordio(const std::uint8_t *payload, std::size_t length);

}  // namespace bushel
