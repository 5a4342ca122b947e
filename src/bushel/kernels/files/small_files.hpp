// Reading small files, each of which is opened, read and closed.
#pragma once
#include <cstdint>
#include <string>

namespace bushel {

// An extent of a file that is not open, with the size and time that the file should have.
struct SmallRead {
    std::string path;
    std::int64_t size = 0;      // of the file, in bytes
    std::int64_t mtime_ns = 0;  // of the file
    std::int64_t offset = 0;
    std::int64_t length = 0;
    std::uint8_t *out = nullptr;  // room for `length` bytes
};

// Open the file, compare its size and time, read the extent, and close the file. Return whether all of that was
// possible; the caller finds out why not.
bool read_small(const SmallRead &read);

}  // namespace bushel
