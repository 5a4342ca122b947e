// A scan of the headers of a tar archive (POSIX ustar and pax, GNU, and the older format).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/byte_source.hpp"

namespace bushel {

struct TarMembers {
    std::vector<std::uint8_t> names;
    std::vector<std::int64_t> name_offsets{0};
    std::vector<std::int64_t> offset, size, header;
    std::vector<std::uint8_t> type;
    std::int64_t end = 0;
    int zero_blocks = 0;
    std::int64_t trailing_bytes = 0;
    std::string problem;  // empty: none
    std::int64_t problem_offset = -1;
    std::string comment;  // the last one that is for the whole archive
};

// The scan as a state machine that requests bytes, so that the same code reads local files, buffers and object stores.
class TarScan {
public:
    struct Window {
        std::int64_t offset, need, wish;
    };

    TarScan(std::int64_t size, std::int64_t start);

    std::int64_t size() const { return size_; }

    // The bytes to feed next; empty if the scan is over. If members are closer than `dense_stride`, large windows are
    // read, otherwise single headers.
    std::optional<Window> next(std::int64_t dense_stride = 16 * 1024) const;

    // Take the bytes at next()->offset, at least next()->need of them.
    void feed(const std::uint8_t *data, std::int64_t length);

    // How many bytes must be fed next; 0 if the scan is over.
    std::int64_t need() const { return phase_ == Phase::over ? 0 : need_; }

    // Go on until there are as many members, or a few more, or the scan is over.
    void read(ByteSource &source, std::size_t most);

    // The number of members since the last call of take().
    std::size_t members() const { return members_.offset.size(); }

    // Return the members since the last call, and forget them.
    TarMembers take();

private:
    struct Overrides {
        std::optional<std::string> path, comment;
        std::optional<std::int64_t> size;
        bool sparse = false;
    };

    enum class Phase { headers, tail, over };

    void read_header(const std::uint8_t *block, std::int64_t length);
    void read_end(const std::uint8_t *block, std::int64_t length);
    void read_tail(const std::uint8_t *data, std::int64_t length);
    void read_name_or_pax(const std::uint8_t *block, std::int64_t length, std::int64_t size, std::uint8_t type);
    bool read_pax(const std::uint8_t *data, std::int64_t length, Overrides &into);
    void add_member(const std::uint8_t *block, std::int64_t length, std::int64_t size, std::uint8_t type);
    void stop(const char *problem);

    std::int64_t size_;
    std::int64_t pos_;  // of the next header
    std::int64_t need_;
    std::int64_t stride_ = 0;  // mean distance of members
    std::int64_t name_bytes_ = 0;  // of all names
    Phase phase_ = Phase::headers;
    std::int64_t first_header_ = -1;  // of the current member, if it has extra headers
    std::optional<std::string> long_name_;
    Overrides local_, global_;
    TarMembers members_;
};

TarMembers scan_tar(ByteSource &source, std::int64_t start);

}  // namespace bushel
