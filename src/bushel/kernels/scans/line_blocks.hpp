// Blocks of lines: where the values of some consecutive samples are, and the numbers among them, in few bytes.
//
// A block has, little-endian, a BlockHead; a FieldHead for each field; where each line begins, relative to the block; and
// the arrays of each field that its head announces, one after another: kinds, places, lengths, numbers. An array with a
// width of 0 is missing, as all its elements are the same, which is in the head. docs/index.md describes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scans/lines.hpp"

namespace bushel {

struct BlockHead {
    std::uint32_t samples, fields;
    std::int64_t start;         // of the first line in the file
    std::uint32_t start_width;  // bytes of the start of a line: 2, 4 or 8
    std::uint32_t reserved;
};

struct FieldHead {
    std::uint64_t number;  // the highest bits of the numbers, which their arrays lack
    std::uint32_t arrays;  // where the arrays are in the block
    std::uint32_t place;   // of values whose places have no array
    std::uint32_t length;  // one more than the bytes, 0 for a missing value; of values whose lengths have no array
    std::uint16_t kinds;   // the bit of each kind that occurs
    std::uint8_t kind;     // of values whose kinds have no array
    std::uint8_t after;    // 1: places count from the end of the value of the field before
    std::uint8_t kind_width, place_width, length_width, number_width;
    std::uint32_t reserved;
};

static_assert(sizeof(BlockHead) == 24 && sizeof(FieldHead) == 32);

// Make a block of values of samples whose lines begin at `starts`, and add to the facts of each field.
void encode_block(const std::vector<FieldValues> &values, const std::int64_t *starts, std::size_t samples,
                  std::vector<FieldFacts> &facts, std::vector<std::uint8_t> &out);

// A property of each value of a field.
enum class LinePart { offset, length, kind, number, real };

// Blocks that follow each other, in borrowed memory. Nothing in them is trusted: anything outside throws
// std::invalid_argument.
class LineBlocks {
public:
    // `at` is where the bytes of each block begin, and `first` its first sample; both end with what follows the last block.
    LineBlocks(const std::uint8_t *data, std::size_t size, const std::int64_t *at, const std::int64_t *first,
               std::size_t blocks);

    std::int64_t samples() const { return first_[blocks_]; }

    // Write a part of the values of `count` samples from the sample `row` on. Without `quotes`, extents of texts in quotes
    // are what the quotes contain. A missing value has the offset 0 and the length -1.
    void read(std::size_t field, LinePart part, bool quotes, std::int64_t row, std::size_t count, std::int64_t *out) const;

    // The bytes of a block, its number of samples, and the first one.
    struct Block {
        const std::uint8_t *data;
        std::size_t size, samples;
        std::int64_t first;
    };

    std::size_t blocks() const { return blocks_; }

    Block block(std::size_t number) const {
        const std::int64_t at = at_[number], first = first_[number];
        return {data_ + at, static_cast<std::size_t>(at_[number + 1] - at),
                static_cast<std::size_t>(first_[number + 1] - first), first};
    }

    // The number of the block that has a sample. Blocks have about the same number of samples, so that the guess is
    // rarely wrong.
    std::size_t block_of(std::int64_t row) const {
        const auto share = static_cast<std::size_t>(static_cast<std::int64_t>(static_cast<double>(row) * share_));
        const std::size_t guess = share < blocks_ ? share : blocks_ - 1;
        return row >= first_[guess] && row < first_[guess + 1] ? guess : block_near(row, guess);
    }

private:
    std::size_t block_near(std::int64_t row, std::size_t guess) const;

    const std::uint8_t *data_;
    const std::int64_t *at_, *first_;
    std::size_t blocks_;
    double share_;  // blocks for each sample
};

}  // namespace bushel
