// The input of scans: a file, read window by window, or a buffer in memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/exceptions.hpp"
#include "files/mapped_file.hpp"

namespace bushel {

class ByteSource {
public:
    virtual ~ByteSource() = default;
    virtual std::int64_t size() const = 0;

    // Return at least `need` bytes at `offset`, which must be inside; if they have to be read, up to `wish` are. Valid
    // until the next call.
    virtual const std::uint8_t *view(std::int64_t offset, std::int64_t need, std::int64_t wish) = 0;

    // Ask the system to have what follows `offset` in memory soon: for reads that leave gaps, and so look random to it.
    virtual void read_ahead(std::int64_t) {}
};

class BufferByteSource final : public ByteSource {
public:
    BufferByteSource(const std::uint8_t *data, std::int64_t size) : data_(data), size_(size) {}
    std::int64_t size() const override { return size_; }
    const std::uint8_t *view(std::int64_t offset, std::int64_t, std::int64_t) override { return data_ + offset; }

private:
    const std::uint8_t *data_;
    std::int64_t size_;
};

// Reads with pread, not through the map: a scan needs each page once, and must survive a file that is truncated
// in the meantime.
class FileByteSource final : public ByteSource {
public:
    FileByteSource() = default;
    explicit FileByteSource(const MappedFile &file) : file_(&file) {}
    std::int64_t size() const override { return file_->size(); }

    const std::uint8_t *view(std::int64_t offset, std::int64_t need, std::int64_t wish) override {
        if (offset < start_ || offset + need > start_ + length_) {
            const std::int64_t length = std::max(need, std::min(wish, file_->size() - offset));
            if (static_cast<std::int64_t>(window_.size()) < length) window_.resize(static_cast<std::size_t>(length));
            start_ = offset, length_ = 0;
            length_ = file_->pread(window_.data(), offset, length);
            if (length_ < length)
                throw ExtentError(ExtentError::Reason::shrunk, 0, file_->size(), offset + length_, file_->path());
        }
        return window_.data() + (offset - start_);
    }

    void read_ahead(std::int64_t offset) override {
        if (offset + ahead / 2 <= asked_) return;
        const std::int64_t from = std::max(offset, asked_), to = std::min(offset + ahead, file_->size());
        if (from < to) file_->prefetch(from, to - from);
        asked_ = offset + ahead;
    }

private:
    static constexpr std::int64_t ahead = 8 << 20;

    const MappedFile *file_ = nullptr;
    std::int64_t start_ = 0;
    std::int64_t length_ = 0;
    std::int64_t asked_ = 0;  // the end of the requested bytes
    std::vector<std::uint8_t> window_;
};

// Return `need` bytes at `offset`, after bytes that begin `stride` bytes before. If strides are small, a large window is
// read, up to `end`; otherwise single pieces, which take less time than copying the bytes between them. This is in
// memory before the pieces are read, unless strides are so large that each piece is better read alone.
template <typename Source>
const std::uint8_t *next_view(Source &source, std::int64_t offset, std::int64_t need, std::int64_t stride,
                              std::int64_t end) {
    constexpr std::int64_t dense = 3 * 1024, near = 64 * 1024, window = 256 * 1024;
    if (stride >= dense && stride < near) source.read_ahead(offset);
    return source.view(offset, need, stride < dense ? std::max(need, std::min(window, end - offset)) : need);
}

}  // namespace bushel
