#include "scans/hybrid.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

#include "common/bytes.hpp"

namespace bushel {

std::uint64_t read_varint(const std::uint8_t *&at, const std::uint8_t *end) {
    std::uint64_t value;
    if (bushel::read_varint(at, end, value)) return value;
    throw std::invalid_argument("levels, indices or numbers end inside a number");
}

HybridRuns::HybridRuns(const std::uint8_t *data, std::size_t size, unsigned width, std::int64_t count)
    : at_(data), end_(data + size), width_(width), left_(count) {
    if (width > 32 || count < 0) throw std::invalid_argument("numbers of at most 32 bits are read");
    if (!width) {
        run_ = count, same_ = true;
    } else if (count) {
        next();
    }
}

void HybridRuns::next() {
    if (packed_) return unpack();
    const auto most = static_cast<std::uint64_t>(left_);
    while (true) {
        const std::uint64_t head = read_varint(at_, end_);
        if (head & 1) {
            const std::uint64_t room = static_cast<std::uint64_t>(end_ - at_) * 8 / width_;  // the last run may be cut
            packed_ = static_cast<std::int64_t>(std::min({head >> 1 > most ? most : (head >> 1) * 8, room, most}));
            if (packed_) return unpack();
            if (head >> 1) at_ = end_;
        } else {
            const auto bytes = static_cast<std::size_t>(std::min<std::ptrdiff_t>((width_ + 7) / 8, end_ - at_));
            value_ = 0;
            for (std::size_t i = 0; i < bytes; ++i) value_ |= std::uint32_t{at_[i]} << 8 * i;
            at_ += bytes;
            run_ = static_cast<std::int64_t>(std::min(head >> 1, most));
            same_ = true;
            if (run_) return;
        }
        if (at_ >= end_) {
            throw std::invalid_argument(std::to_string(left_) + " more levels or indices are announced than there are");
        }
    }
}

void HybridRuns::unpack() {
    std::uint8_t bytes[at_a_time * 4 + 8];  // so that eight bytes can be read where each number begins
    const std::int64_t numbers = std::min(packed_, at_a_time);
    const std::ptrdiff_t size = std::min<std::ptrdiff_t>((numbers + 7) / 8 * width_, end_ - at_);
    std::memcpy(bytes, at_, static_cast<std::size_t>(size));
    std::memset(bytes + size, 0, 8);
    const std::uint64_t mask = (std::uint64_t{1} << width_) - 1;
    for (std::int64_t i = 0; i < numbers; ++i) {
        const std::uint64_t bit = static_cast<std::uint64_t>(i) * width_;
        std::uint64_t word;
        std::memcpy(&word, bytes + (bit >> 3), 8);
        unpacked_[i] = static_cast<std::uint32_t>(word >> (bit & 7) & mask);
    }
    at_ += size, packed_ -= numbers, run_ = numbers, first_ = 0, same_ = false;
}

std::vector<std::uint32_t> read_hybrid(const std::uint8_t *data, std::size_t size, unsigned width, std::int64_t count) {
    HybridRuns runs(data, size, width, count);
    std::vector<std::uint32_t> numbers;
    while (!runs.done()) {
        const std::int64_t run = runs.run();
        if (runs.same()) {
            numbers.insert(numbers.end(), static_cast<std::size_t>(run), runs[0]);
        } else {
            numbers.insert(numbers.end(), runs.values(), runs.values() + run);
        }
        runs.skip(run);
    }
    return numbers;
}

}  // namespace bushel
