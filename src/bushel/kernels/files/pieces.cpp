#include "files/pieces.hpp"

#include <cstring>
#include <limits>

#include "common/exceptions.hpp"
#include "files/crc32.hpp"

namespace bushel {

namespace {

constexpr std::int64_t max_int64 = std::numeric_limits<std::int64_t>::max();

bool inside(std::int64_t start, std::int64_t size, std::int64_t whole) {
    return start >= 0 && size >= 0 && start <= whole && size <= whole - start;
}

// Return the problem of a piece, or return null and take its bytes from the bytes that its value lacks.
const char *problem_of(const Pieces &pieces, std::size_t i, std::vector<std::int64_t> &rest) {
    const std::int64_t row = pieces.row[i];
    if (row < 0 || static_cast<std::uint64_t>(row) >= pieces.values) return " is of no value";
    const auto value = static_cast<std::size_t>(row);
    if (pieces.missing(value)) return " is of a missing value";
    if (!inside(pieces.at[i], pieces.size[i], pieces.length[value])) return " is not inside its value";
    if (pieces.size[i] > rest[value]) return " is too much for its value";
    rest[value] -= pieces.size[i];
    const std::size_t files = pieces.files.size();
    if (pieces.source[i] < 0 || static_cast<std::size_t>(pieces.source[i]) >= files + pieces.buffers.size())
        return " has no source";
    const auto source = static_cast<std::size_t>(pieces.source[i]);
    if (source >= files && !inside(pieces.offset[i], pieces.size[i], pieces.buffers[source - files].size))
        return " is not inside its buffer";
    return nullptr;
}

}  // namespace

MappedPieces::MappedPieces(const Pieces &pieces) {
    const std::size_t files = pieces.files.size();
    for (std::size_t i = 0; i < pieces.count; ++i) {
        if (static_cast<std::size_t>(pieces.source[i]) >= files) continue;
        number_.push_back(i);
        file_.push_back(pieces.source[i]);
        offset_.push_back(pieces.offset[i]);
        size_.push_back(pieces.size[i]);
    }
    batch_.files = pieces.files;
    batch_.file = file_.data();
    batch_.offset = offset_.data();
    batch_.length = size_.data();
    batch_.rows = number_.size();
}

std::string problem(const Pieces &pieces, std::int64_t &total) {
    total = 0;
    for (std::size_t value = 0; value < pieces.values; ++value) {
        const std::int64_t length = pieces.length[value];
        if (length < -1) return "length[" + std::to_string(value) + "] is negative";
        if (length > max_int64 - total) return "the values are too long";
        if (length > 0) total += length;
    }
    std::vector<std::int64_t> rest(pieces.length, pieces.length + pieces.values);
    for (std::size_t i = 0; i < pieces.count; ++i) {
        const char *const what = problem_of(pieces, i, rest);
        if (what) return "piece " + std::to_string(i) + what;
    }
    for (std::size_t value = 0; value < pieces.values; ++value) {
        if (rest[value] > 0) return "value " + std::to_string(value) + " lacks " + std::to_string(rest[value]) + " bytes";
    }
    return "";
}

void check(const Pieces &pieces, const MappedPieces &mapped) {
    try {
        check(mapped.batch());
    } catch (ExtentError &error) {
        error.row = static_cast<std::size_t>(pieces.row[mapped.piece(error.row)]);
        throw;
    }
}

void copy(const Pieces &pieces, const MappedPieces &mapped, std::uint8_t *const *out) {
    std::vector<std::uint8_t *> room(mapped.batch().rows);
    for (std::size_t row = 0; row < room.size(); ++row) {
        const std::size_t i = mapped.piece(row);
        room[row] = out[pieces.row[i]] + pieces.at[i];
    }
    try {
        copy(mapped.batch(), room.data());
    } catch (ExtentError &error) {
        error.row = static_cast<std::size_t>(pieces.row[mapped.piece(error.row)]);
        throw;
    }
    for (std::size_t i = 0; i < pieces.count; ++i) {
        const auto source = static_cast<std::size_t>(pieces.source[i]);
        if (source < pieces.files.size() || pieces.size[i] == 0) continue;
        const std::uint8_t *from = pieces.buffers[source - pieces.files.size()].data + pieces.offset[i];
        std::memcpy(out[pieces.row[i]] + pieces.at[i], from, static_cast<std::size_t>(pieces.size[i]));
    }
    for (std::size_t value = 0; pieces.crc && value < pieces.values; ++value) {
        if (pieces.missing(value)) continue;
        const std::uint32_t sum = crc32(out[value], static_cast<std::size_t>(pieces.length[value]));
        if (sum != pieces.crc[value])
            throw ExtentError(ExtentError::Reason::checksum, value, pieces.crc[value], sum, "the blocks of a value");
    }
}

}  // namespace bushel
