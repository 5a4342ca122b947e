// Reading small files: each is opened, read and closed.
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
};

// Open the file, compare its size and time, read the extent, which is inside that size, and close the file. Return whether
// all of that was possible; the caller finds out why not. `folder` is the descriptor of the folder that relative paths start from.
bool read_small(const SmallRead &read, int folder, std::uint8_t *out);

// Read a whole file of at most `room` - 1 bytes, and return its size; -1 if that is not possible, or if the file has
// another size than when it was opened.
std::int64_t read_whole(const std::string &path, int folder, std::uint8_t *out, std::size_t room);

// The size of a file in bytes, and its time of modification in nanoseconds; -1 if it cannot be looked at.
struct Stamp {
    std::int64_t size = -1;
    std::int64_t mtime_ns = 0;
};

Stamp stamp_of(const std::string &path, int folder);

// Whether a path relative to a folder may be one outside: an absolute one, or one with a part that is empty, . or ..
bool leads_out(const std::string &path);

// A folder, open to find files by their paths in it. Without a name, paths start from the working directory.
class OpenFolder {
public:
    explicit OpenFolder(const std::string &name);
    ~OpenFolder();
    OpenFolder(const OpenFolder &) = delete;
    OpenFolder &operator=(const OpenFolder &) = delete;

    int descriptor() const { return fd_; }  // -1 if it cannot be opened: then no relative path is found

private:
    int fd_;
};

}  // namespace bushel
