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

// A view of a table as a file holds it. Nothing in it is trusted.
class SeekTable {
public:
    SeekTable() = default;
    SeekTable(const std::uint8_t *words, std::size_t size) : data_(words), size_(size) {}

    bool is_empty() const { return size_ == 0; }
    bool is_whole() const { return size_ % sizeof(std::uint64_t) == 0; }
    std::size_t words() const { return size_ / sizeof(std::uint64_t); }
    std::uint64_t operator[](std::size_t number) const;

private:
    const std::uint8_t *data_ = nullptr;
    std::size_t size_ = 0;
};

// The states of a table, unpacked. No state is trusted before it is compared with the decoder that has come to it.
class SeekStates {
public:
    // Unpack a table. Return false if it has not a state for every `step` MCUs of an image of this header and size, in
    // ascending order inside the data.
    bool read(const SeekTable &table, const JpegHeader &header, std::size_t size);

    // Valid after `read`. State 0 is that before the first MCU, and the last one that after the last MCU.
    int step() const { return step_; }
    int last() const { return static_cast<int>(words_.size()) - 1; }
    SeekState operator[](int number) const { return SeekState::from_word(words_[static_cast<std::size_t>(number)]); }

private:
    bool unpack(const SeekTable &table, std::size_t states);

    int step_ = 0;
    std::vector<std::uint64_t> words_;  // of the states, as SeekState::word makes them
};

// Whether an image can have a table: one that Bushel's decoder reads, without restart markers.
bool is_seekable(const JpegHeader &header);

// Return the MCUs between the states from which a table is chosen.
int finest_step(const JpegHeader &header);

// Return a table of the states that are `pixels` apart, or as far as needed so that the table and its place in the
// index take at most 1 % of the image's bytes; empty if not even one state fits. The given ones, as words, are
// those after every `finest_step` MCUs, and after the last MCU.
std::vector<std::uint64_t> pack_seek_table(const std::vector<std::uint64_t> &states, const JpegHeader &header,
                                           std::size_t size, int pixels);

// Rows of MCUs that are decoded one after another, from one state on up to another one.
struct SeekRun {
    int top = 0, bottom = 0;  // rows of MCUs
    int first = 0, last = 0;  // states
};

// Return the run that begins with a row. It goes on with the next row while no state would save MCUs on the way there.
SeekRun next_run(const SeekStates &states, const Region &mcus, int columns, int row, int bottom);

// Return the rows of MCUs that each of two lanes decodes at once, from a row of a region on: half of the rest, or as
// many as a fast cache holds.
int rows_of_lane(const Region &mcus, int row);

// Return the ranges of bytes (begin, end) that the runs read to decode these MCUs, ascending and not adjacent.
std::vector<std::pair<std::size_t, std::size_t>> seek_ranges(const SeekStates &states, const JpegHeader &header,
                                                             std::size_t size, const Region &mcus);

// Return the begin and end of a run's bytes.
std::pair<std::size_t, std::size_t> bytes_of_run(const SeekStates &states, const SeekRun &run, std::size_t data_offset,
                                                 std::size_t size);

}  // namespace bushel
