// The lengths of values that follow each other in a file, each after its length in 4 bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "files/mapped_file.hpp"

namespace bushel {

// A place in a file where values follow each other up to `end`; `at` is the length of the next one.
struct ValuesOfFile {
    std::int64_t at, end;
};

// Load the lengths of values into memory, in many places at the same time, since each follows from the one before. It
// stops early if the disk takes longer than reading everything would. `check` is called after some thousands of reads.
void load_lengths(const MappedFile &file, const std::vector<ValuesOfFile> &places, const std::function<void()> &check);

}  // namespace bushel
