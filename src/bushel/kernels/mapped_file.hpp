// One read-only local file: mapped, and aware of which of its pages were already seen in memory.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace bushel {

class MappedFile {
public:
    // Granularity of the residency map. The page size of most systems; on those with larger pages it is merely finer
    // than needed.
    static constexpr std::int64_t page = 4096;

    explicit MappedFile(std::string path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    const std::string &path() const { return path_; }
    std::int64_t size() const { return size_; }
    std::int64_t mtime_ns() const { return mtime_ns_; }

    // Size on disk now, below size() when the file was cut after it was opened: its lost pages must not be touched.
    std::int64_t size_now() const;

    bool contains(std::int64_t offset, std::int64_t length) const {
        return offset >= 0 && length >= 0 && offset <= size_ && length <= size_ - offset;
    }

    const std::uint8_t *data() const { return data_; }

    // Whether every page of a (contained) range was read before and is thus expected in memory.
    bool seen(std::int64_t offset, std::int64_t length) const;
    void mark_seen(std::int64_t offset, std::int64_t length) const;
    void forget_seen() const;

    // Asks the system to read a range in the background.
    void announce(std::int64_t offset, std::int64_t length) const;

    // Copies a range without touching the mapping. Returns the bytes read: fewer than `length` at the end of the file.
    std::int64_t pread(std::uint8_t *out, std::int64_t offset, std::int64_t length) const;

    // As pread, but ends before what is not in memory; -1 when that is the first byte.
    std::int64_t pread_if_resident(std::uint8_t *out, std::int64_t offset, std::int64_t length) const;

private:
    struct FreeWords {
        void operator()(std::atomic<std::uint64_t> *words) const;
    };

    std::string path_;
    int fd_ = -1;
    std::int64_t size_ = 0;
    std::int64_t mtime_ns_ = 0;
    const std::uint8_t *data_ = nullptr;  // null: empty, or the file system cannot map; then every read is a pread
    std::unique_ptr<std::atomic<std::uint64_t>[], FreeWords> seen_;  // one bit per page
    std::size_t seen_words_ = 0;
};

// Page faults of this thread that had to wait for the disk; 0 where the system does not count them by thread.
long major_faults();

}  // namespace bushel
