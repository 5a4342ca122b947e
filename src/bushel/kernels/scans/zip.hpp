// Scans of zip archives: the entries of the directory, and the headers before the data of members.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "files/byte_source.hpp"

namespace bushel {

// Entries of a directory, in its order.
struct ZipEntries {
    std::vector<std::uint8_t> names;         // in UTF-8, one after another
    std::vector<std::int64_t> name_offsets;  // of each, and the end of the last one
    std::vector<std::int64_t> header;        // offset in the file of the header before the data
    std::vector<std::int64_t> stored, size;  // bytes in the file, and of the value
    std::vector<std::uint32_t> crc32;        // of the value
    std::vector<std::uint16_t> method, flags;

    ZipEntries() : name_offsets(1) {}
};

class ZipDirectory {
public:
    // `size`: bytes of the directory. `shift`: bytes of the file before the archive, which offsets do not count.
    ZipDirectory(std::int64_t size, std::int64_t shift) : size_(size), shift_(shift) {}

    // Read the complete entries of the bytes that follow those read before. Return the number of bytes that they have.
    // If that is 0, `need` is the number of bytes to feed next, unless there is a problem.
    std::size_t feed(const std::uint8_t *data, std::size_t size);

    // Return the entries that were read since the last call.
    ZipEntries take();

    std::int64_t end = 0;  // bytes of the entries that were read
    std::uint64_t need = 0;
    std::string problem;  // empty: none. It ends the scan, at `end`.

private:
    void read_entry(const std::uint8_t *data);
    void add_name(const std::uint8_t *name, std::size_t length, bool is_utf8);

    std::int64_t size_, shift_;
    ZipEntries entries_;
};

// Return where the data of members begin, after the headers at these offsets; -1 where no header is in the file. Headers
// that follow each other closely are read together.
std::vector<std::int64_t> zip_data(const MappedFile &file, const std::int64_t *header, std::size_t count);

}  // namespace bushel
