// Seek tables of plain JPEGs: states of the entropy decoder at regular places, so that decoding can begin there as at a
// restart marker. docs/seek-tables.md specifies the words.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/image.hpp"
#include "jpeg/header.hpp"

namespace bushel {

// The state of the entropy decoder between two MCUs.
struct SeekState {
    std::size_t offset = 0;  // of the byte with the next bit, from the start of the entropy-coded data
    unsigned bit = 0;        // bits of that byte which are used
    int dc[3] = {};          // the DC predictions

    bool is_storable() const;
    std::uint64_t word() const;
    static SeekState from_word(std::uint64_t word);
};

// A view of a table as a file holds it. Nothing in it is trusted before `fits`, and no state before it is compared.
class SeekTable {
public:
    SeekTable() = default;
    SeekTable(const std::uint8_t *words, std::size_t size) : words_(words), size_(size) {}

    bool is_empty() const { return size_ == 0; }

    // Whether the table has a state for every `step` MCUs of an image of this header and size, in ascending order
    // inside the data.
    bool fits(const JpegHeader &header, std::size_t size) const;

    // Valid if the table fits. State 0 is that before the first MCU, and the last one that after the last MCU.
    int step() const { return static_cast<int>(word(0)); }
    int last() const { return static_cast<int>(size_ / sizeof(std::uint64_t)) - 1; }
    SeekState operator[](int number) const { return number ? SeekState::from_word(word(number)) : SeekState(); }

    static std::uint64_t first_word(std::size_t data_offset, int step);

private:
    std::uint64_t word(int number) const;

    const std::uint8_t *words_ = nullptr;
    std::size_t size_ = 0;
};

// Whether an image can have a table: one that Bushel's decoder reads, without restart markers.
bool is_seekable(const JpegHeader &header);

// Return the MCUs between two states: about `pixels` wide, or more, so that the table and its place in the index take
// at most 1 % of the image's bytes; 0 if there is no room for a state.
int choose_step(const JpegHeader &header, std::size_t size, int pixels);

// Rows of MCUs that are decoded one after another, from one state on up to another one.
struct SeekRun {
    int top = 0, bottom = 0;  // rows of MCUs
    int first = 0, last = 0;  // states
};

// Return the run that begins with a row. It goes on with the next row while no state would save MCUs on the way there.
SeekRun next_run(const SeekTable &table, const Region &mcus, int columns, int row, int bottom);

// Return the rows of MCUs that each of two lanes decodes at once, from a row of a region on: half of the rest, or as many
// as a fast cache holds.
int rows_of_lane(const Region &mcus, int row);

// Return the ranges of bytes (begin, end) that the runs read to decode these MCUs, ascending and not adjacent.
std::vector<std::pair<std::size_t, std::size_t>> seek_ranges(const SeekTable &table, const JpegHeader &header,
                                                             std::size_t size, const Region &mcus);

// Return the begin and end of a run's bytes.
std::pair<std::size_t, std::size_t> bytes_of_run(const SeekTable &table, const SeekRun &run, std::size_t data_offset,
                                                 std::size_t size);

}  // namespace bushel
