// Values that consist of pieces of mapped files and of buffers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "files/batched_read.hpp"

namespace bushel {

// Bytes in memory. They are borrowed.
struct Span {
    const std::uint8_t *data;
    std::int64_t size;
};

// Pieces of values. The arrays are borrowed.
struct Pieces {
    std::vector<const MappedFile *> files;  // by source number; null if no piece refers to it
    std::vector<Span> buffers;              // numbered after the files
    const std::int64_t *length = nullptr;   // of each value; -1: a missing one, which has no pieces
    const std::uint32_t *crc = nullptr;     // of each value; null: not checked
    std::size_t values = 0;
    const std::int32_t *source = nullptr;  // file or buffer of each piece
    const std::int64_t *offset = nullptr;  // bytes from its start
    const std::int64_t *size = nullptr;
    const std::int64_t *row = nullptr;  // number of the value
    const std::int64_t *at = nullptr;   // bytes from the start of the value
    std::size_t count = 0;

    bool missing(std::size_t value) const { return length[value] == -1; }
};

// The pieces in mapped files, as a batch of rows.
class MappedPieces {
public:
    explicit MappedPieces(const Pieces &pieces);

    const Batch &batch() const { return batch_; }
    // The number of the piece that a row is.
    std::size_t piece(std::size_t row) const { return number_[row]; }

private:
    std::vector<std::size_t> number_;
    std::vector<std::int32_t> file_;
    std::vector<std::int64_t> offset_, size_;
    Batch batch_;
};

// Return the problem of the pieces; empty if each is inside its source and its value, and the pieces of a value have
// as many bytes as it has. Pieces in files are left to `check`. `total` becomes the sum of the lengths of the values.
std::string problem(const Pieces &pieces, std::int64_t &total);

// Check the pieces in files, as `check` of a batch does. The row of an ExtentError is the number of the value.
void check(const Pieces &pieces, const MappedPieces &mapped);

// Copy all pieces: value i to out[i]. Then compare the checksums. The ExtentError of the first wrong value is thrown at
// the end. The pieces must be checked.
void copy(const Pieces &pieces, const MappedPieces &mapped, std::uint8_t *const *out);

}  // namespace bushel
