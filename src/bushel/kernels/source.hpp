// Where a scan gets its bytes from: a file, read window by window, or a buffer in memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "faults.hpp"
#include "mapped_file.hpp"

namespace bushel {

class Source {
public:
    virtual ~Source() = default;
    virtual std::int64_t size() const = 0;

    // At least `need` bytes at `offset`, which must lie inside; up to `wish` are read when it has to read. Valid until
    // the next call.
    virtual const std::uint8_t *view(std::int64_t offset, std::int64_t need, std::int64_t wish) = 0;
};

class BufferSource final : public Source {
public:
    BufferSource(const std::uint8_t *data, std::int64_t size) : data_(data), size_(size) {}
    std::int64_t size() const override { return size_; }
    const std::uint8_t *view(std::int64_t offset, std::int64_t, std::int64_t) override { return data_ + offset; }

private:
    const std::uint8_t *data_;
    std::int64_t size_;
};

// Reads by pread and not through the map: a scan touches each page once, and must survive a file that is cut meanwhile.
class FileSource final : public Source {
public:
    FileSource() = default;
    explicit FileSource(const MappedFile &file) : file_(&file) {}
    std::int64_t size() const override { return file_->size(); }

    const std::uint8_t *view(std::int64_t offset, std::int64_t need, std::int64_t wish) override {
        if (offset < start_ || offset + need > start_ + length_) {
            const std::int64_t length = std::max(need, std::min(wish, file_->size() - offset));
            if (static_cast<std::int64_t>(window_.size()) < length) window_.resize(static_cast<std::size_t>(length));
            start_ = offset, length_ = 0;
            length_ = file_->pread(window_.data(), offset, length);
            if (length_ < length)
                throw ExtentFault(ExtentFault::Reason::shrunk, 0, file_->size(), offset + length_, file_->path());
        }
        return window_.data() + (offset - start_);
    }

private:
    const MappedFile *file_ = nullptr;
    std::int64_t start_ = 0;
    std::int64_t length_ = 0;
    std::vector<std::uint8_t> window_;
};

}  // namespace bushel
