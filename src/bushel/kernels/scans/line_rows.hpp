// Values of a field of lines in any order, from blocks that are checked once.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "scans/line_blocks.hpp"

namespace bushel {

class OpenBlock;

// Threads may share it. A block is checked when one of its samples is wanted for the first time, and a damaged one
// each time; std::invalid_argument is thrown then. Samples that do not exist throw std::out_of_range; negative ones
// count from the end.
class LineRows {
public:
    // Without `quotes`, extents of texts in quotes are what the quotes contain.
    LineRows(const LineBlocks &blocks, std::size_t field, LinePart part, bool quotes);
    ~LineRows();
    LineRows(const LineRows &) = delete;
    LineRows &operator=(const LineRows &) = delete;

    // Write the part of the values of samples.
    void take(const std::int64_t *rows, std::size_t count, std::int64_t *out) const;

    // Write offset and length of the values of samples; only if the part is one of both.
    void extents(const std::int64_t *rows, std::size_t count, std::int64_t *offset, std::int64_t *length) const;

private:
    template <typename Put>
    void each(const std::int64_t *rows, std::size_t count, Put put) const;
    const OpenBlock &block(std::size_t number) const;
    const OpenBlock &opened(std::size_t number) const;

    LineBlocks blocks_;
    std::size_t field_;
    LinePart part_;
    bool quotes_, extent_;
    mutable std::once_flag made_;  // `known_` is made by the first read
    mutable std::unique_ptr<std::atomic<const OpenBlock *>[]> known_;  // the blocks that were checked, null for others
};

}  // namespace bushel
