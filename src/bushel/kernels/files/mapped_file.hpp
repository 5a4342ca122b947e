// A read-only local file: mapped into memory, with a record of the pages that have been seen in memory; or open for
// direct reads.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace bushel {

// Return the time of the last modification in nanoseconds.
std::int64_t mtime_of(const struct stat &info);

// Open a regular file to read it, and return its descriptor. Throws SystemError.
int open_regular(const std::string &path, struct stat &info);

class MappedFile {
public:
    // Granularity of the record of seen pages: the page size of most systems. Larger pages work too.
    static constexpr std::int64_t page = 4096;

    explicit MappedFile(std::string path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    const std::string &path() const { return path_; }
    std::int64_t size() const { return size_; }
    std::int64_t mtime_ns() const { return mtime_ns_; }
    int descriptor() const { return fd_; }

    // The same file, open for direct reads; it is not mapped. Null if its file system does not offer them.
    std::unique_ptr<MappedFile> direct() const;

    // What direct reads are aligned to; 0 for a file that is read through the page cache.
    std::int64_t alignment() const { return alignment_; }

    // The current size on disk. It is less than size() if the file was truncated; its lost pages must not be touched.
    std::int64_t size_now() const;

    bool contains(std::int64_t offset, std::int64_t length) const {
        return offset >= 0 && length >= 0 && offset <= size_ && length <= size_ - offset;
    }

    const std::uint8_t *data() const { return data_; }

    // Whether every page of a range inside the file has been read before, and is expected to be in memory.
    bool seen(std::int64_t offset, std::int64_t length) const;
    void mark_seen(std::int64_t offset, std::int64_t length) const;
    void forget_seen() const;

    // Whether every page of a range inside the file is in memory; if so, they count as seen. False if the system does not
    // report it, or if the range has more than 64 pages.
    bool find_resident(std::int64_t offset, std::int64_t length) const;

    // Ask the system to read a range in the background.
    void prefetch(std::int64_t offset, std::int64_t length) const;

    // Copy a range without touching the map. Return the number of bytes read: less than `length` at the end of the
    // file.
    std::int64_t pread(std::uint8_t *out, std::int64_t offset, std::int64_t length) const;

    // Do the same, but stop at the first byte that is not in memory; -1 if that is the first one.
    std::int64_t pread_if_resident(std::uint8_t *out, std::int64_t offset, std::int64_t length) const;

private:
    MappedFile(const MappedFile &file, int descriptor, std::int64_t alignment);

    struct FreeWords {
        void operator()(std::atomic<std::uint64_t> *words) const;
    };

    std::string path_;
    int fd_ = -1;
    std::int64_t size_ = 0;
    std::int64_t mtime_ns_ = 0;
    std::int64_t alignment_ = 0;
    bool tells_resident_ = false;
    const std::uint8_t *data_ = nullptr;  // null: empty, or the file system cannot map files; then pread is used
    std::unique_ptr<std::atomic<std::uint64_t>[], FreeWords> seen_;  // one bit per page
    std::size_t seen_words_ = 0;
};

// Return the number of page faults of this thread that waited for the disk; 0 if the system does not count them by
// thread.
long major_faults();

}  // namespace bushel
