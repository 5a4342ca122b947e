// Numbers of few bits in the hybrid of run lengths and bit-packing of Parquet: levels, indices of dictionaries and truth
// values. Sizes and counts are checked before memory is taken; damaged bytes throw std::invalid_argument.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// Read a number of 7 bits a byte at a position, and move the position after it. `end` is the end of the bytes.
std::uint64_t read_varint(const std::uint8_t *&at, const std::uint8_t *end);

// The numbers of a section, run by run.
class HybridRuns {
public:
    // `width`: bits of a number, 32 at most; `count`: how many numbers there must be.
    HybridRuns(const std::uint8_t *data, std::size_t size, unsigned width, std::int64_t count);

    // Whether all numbers were taken. Otherwise there are some in the run.
    bool done() const { return !run_; }

    // How many numbers of the run are left.
    std::int64_t run() const { return run_; }

    // Whether the numbers of the run are the same.
    bool same() const { return same_; }

    // A number of the run; `i` is less than run().
    std::uint32_t operator[](std::int64_t i) const { return same_ ? value_ : unpacked_[first_ + i]; }

    // The numbers of a run that are not the same.
    const std::uint32_t *values() const { return unpacked_ + first_; }

    // Go on after some numbers of the run.
    void skip(std::int64_t numbers) {
        run_ -= numbers, first_ += numbers, left_ -= numbers;
        if (!run_ && left_) next();
    }

private:
    void next();
    void unpack();

    static constexpr std::int64_t at_a_time = 512;  // numbers that are unpacked together, a multiple of 8

    const std::uint8_t *at_, *end_;
    unsigned width_;
    std::int64_t left_;        // numbers that were not taken yet
    std::int64_t run_ = 0;     // of these, the ones of the run
    std::int64_t packed_ = 0;  // numbers of a packed run after those that are unpacked
    std::int64_t first_ = 0;   // number of the run's first one in `unpacked_`
    bool same_ = false;
    std::uint32_t value_ = 0;
    std::uint32_t unpacked_[at_a_time];
};

// Return all numbers of a section.
std::vector<std::uint32_t> read_hybrid(const std::uint8_t *data, std::size_t size, unsigned width, std::int64_t count);

}  // namespace bushel
