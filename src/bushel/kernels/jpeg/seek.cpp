#include "jpeg/seek.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/bytes.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

constexpr unsigned offset_bits = 25, dc_bits = 12, first_dc_bit = offset_bits + 3;
constexpr int dc_limit = 1 << (dc_bits - 1);

// MCUs that a lane decodes before their pixels are written: at most 196 KiB of samples.
#ifndef BUSHEL_JPEG_LANE
#define BUSHEL_JPEG_LANE 512
#endif

constexpr std::size_t bytes_per_word = 800;  // a word is 1 % of them

// A packed table begins with three words: the step and the header's bytes, the widths of its fields, the least values
// of the DC predictions and the check. Tables of one word per state, which were made first, lack the mark in the first
// word.
constexpr std::uint64_t packed_mark = std::uint64_t{1} << 31;
constexpr std::size_t packed_head = 3;
constexpr unsigned position_bits = offset_bits + 3, fields = 4, check_bit = 3 * dc_bits;

// The distances between the positions of states, in bits of the data, and the DC predictions of three components, less
// the least value of each: `width` bits for every state.
struct PackedField {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = std::numeric_limits<std::int64_t>::min();
    unsigned width = 0;

    void add(std::int64_t value) { least = std::min(least, value), most = std::max(most, value); }
    void measure() {
        for (width = 0; (most - least) >> width;) ++width;
    }
};

constexpr std::uint64_t low_bits(unsigned count) {
    return count < 64 ? (std::uint64_t{1} << count) - 1 : ~std::uint64_t{0};
}

// A sum over all words, which shows changed ones: a change of the least values would change the states alike.
class Check {
public:
    void add(std::uint64_t word) {
        sum_ = (sum_ ^ word) * 0x9E3779B97F4A7C15;
        sum_ ^= sum_ >> 32;
    }
    std::uint64_t bits() const { return sum_ >> check_bit; }

private:
    std::uint64_t sum_ = 0;
};

std::int64_t position_of(std::uint64_t word) { return static_cast<std::int64_t>(word & low_bits(position_bits)); }

int sign_extended(std::uint64_t value) {
    const auto bits = static_cast<int>(value & low_bits(dc_bits));
    return bits < dc_limit ? bits : bits - 2 * dc_limit;
}

int dc_of(std::uint64_t word, unsigned component) {
    return sign_extended(word >> (first_dc_bit + component * dc_bits));
}

std::uint64_t state_word(std::int64_t position, const std::int64_t (&dc)[3]) {
    auto word = static_cast<std::uint64_t>(position);
    for (unsigned i = 0; i < 3; ++i) {
        word |= (static_cast<std::uint64_t>(dc[i]) & low_bits(dc_bits)) << (first_dc_bit + i * dc_bits);
    }
    return word;
}

// MCUs of the image, or 0 if there are too many for an int.
int count_mcus(const JpegGrid &grid) {
    const std::int64_t total = std::int64_t{grid.columns} * grid.rows;
    return total > std::numeric_limits<int>::max() / 2 ? 0 : static_cast<int>(total);
}

}  // namespace

bool SeekState::is_storable() const {
    return offset < std::size_t{1} << offset_bits &&
           std::all_of(dc, dc + 3, [](int value) { return value >= -dc_limit && value < dc_limit; });
}

std::uint64_t SeekState::word() const {
    return state_word(static_cast<std::int64_t>(offset << 3 | bit), {dc[0], dc[1], dc[2]});
}

SeekState SeekState::from_word(std::uint64_t word) {
    SeekState state;
    state.bit = static_cast<unsigned>(word & 7);
    state.offset = static_cast<std::size_t>(word >> 3 & low_bits(offset_bits));
    for (unsigned i = 0; i < 3; ++i) state.dc[i] = dc_of(word, i);
    return state;
}

std::uint64_t SeekTable::operator[](std::size_t number) const {
    return little_64(data_ + number * sizeof(std::uint64_t));
}

bool SeekStates::read(const SeekTable &table, const JpegHeader &header, std::size_t size) {
    const int total = count_mcus(JpegGrid(header));
    if (!table.is_whole() || table.is_empty() || total == 0 || !is_seekable(header)) return false;
    const bool is_packed = table[0] & packed_mark;
    const std::uint64_t step = table[0] & low_bits(31);
    if (step < 1 || step > static_cast<std::uint64_t>(total) || table[0] >> 32 != header.data_offset) return false;
    step_ = static_cast<int>(step);
    const auto states = static_cast<std::size_t>(divide_up(total, step_));
    if (size <= header.data_offset) return false;
    if (states > 8 * (size - header.data_offset)) return false;  // each has a bit of the data to itself
    words_.resize(states + 1);
    words_[0] = 0;
    if (is_packed) {
        if (!unpack(table, states)) return false;
    } else {
        if (table.words() != states + 1) return false;
        for (std::size_t number = 1; number <= states; ++number) words_[number] = table[number];
    }
    std::int64_t before = 0;
    for (std::size_t number = 1; number <= states; ++number) {
        if (position_of(words_[number]) <= before) return false;
        before = position_of(words_[number]);
    }
    return static_cast<std::size_t>(before) / 8 < size - header.data_offset;
}

bool SeekStates::unpack(const SeekTable &table, std::size_t states) {
    if (table.words() < packed_head || table[1] >> (position_bits + 5 + 3 * 4)) return false;
    PackedField field[fields];
    field[0].least = position_of(table[1]);
    field[0].width = static_cast<unsigned>(table[1] >> position_bits & low_bits(5));
    unsigned together = field[0].width;
    if (field[0].width > position_bits) return false;
    for (unsigned i = 1; i < fields; ++i) {
        field[i].least = sign_extended(table[2] >> ((i - 1) * dc_bits));
        field[i].width = static_cast<unsigned>(table[1] >> (position_bits + 5 + (i - 1) * 4) & low_bits(4));
        if (field[i].width > dc_bits) return false;
        together += field[i].width;
    }
    if (table.words() != packed_head + (states * together + 63) / 64) return false;
    Check check;
    for (std::size_t number = 0; number < table.words(); ++number) {
        check.add(number == 2 ? table[2] & low_bits(check_bit) : table[number]);
    }
    if (check.bits() != table[2] >> check_bit) return false;

    std::int64_t position = 0;
    bool is_inside = true;
    for (std::size_t number = 1, at = 0; number <= states; ++number, at += together) {
        const std::size_t first = packed_head + at / 64;
        const unsigned shift = at % 64;
        std::uint64_t bits = together ? table[first] >> shift : 0;
        if (shift + together > 64) bits |= table[first + 1] << (64 - shift);
        const auto take = [&bits](const PackedField &packed) {
            const auto value = static_cast<std::int64_t>(bits & low_bits(packed.width));
            bits >>= packed.width;
            return packed.least + value;
        };
        position += take(field[0]);
        const std::int64_t dc[] = {take(field[1]), take(field[2]), take(field[3])};
        is_inside &= position <= static_cast<std::int64_t>(low_bits(position_bits)) &&
                     std::max({dc[0], dc[1], dc[2]}) < dc_limit;
        words_[number] = state_word(position & static_cast<std::int64_t>(low_bits(position_bits)), dc);
    }
    return is_inside;
}

bool is_seekable(const JpegHeader &header) {
    return is_usual_jpeg(header) &&
           (header.restart_interval == 0 || header.restart_interval >= count_mcus(JpegGrid(header)));
}

int finest_step(const JpegHeader &header) {
    constexpr int pixels = 16;
    return std::max(pixels / JpegGrid(header).mcu_width, 1);
}

std::vector<std::uint64_t> pack_seek_table(const std::vector<std::uint64_t> &states, const JpegHeader &header,
                                           std::size_t size, int pixels) {
    const JpegGrid grid(header);
    const std::size_t most = size / bytes_per_word;  // one of them for the table's place in the index
    if (most <= packed_head + 1) return {};
    const int finest = finest_step(header), total = count_mcus(grid);
    for (int stride = std::max(divide_up(pixels / grid.mcu_width, finest), 1); stride * finest < total; ++stride) {
        const std::size_t count = divide_up(states.size(), stride);
        const auto chosen = [&](std::size_t number) {
            return states[std::min((number + 1) * static_cast<std::size_t>(stride), states.size()) - 1];
        };
        PackedField field[fields];
        for (std::size_t number = 0; number < count; ++number) {
            field[0].add(position_of(chosen(number)) - (number ? position_of(chosen(number - 1)) : 0));
            for (unsigned i = 1; i < fields; ++i) field[i].add(dc_of(chosen(number), i - 1));
        }
        unsigned together = 0;
        for (PackedField &packed : field) {
            packed.measure();
            together += packed.width;
        }
        const std::size_t length = packed_head + (count * together + 63) / 64;
        if (length + 1 > most) continue;

        std::vector<std::uint64_t> words(length);
        words[0] = std::uint64_t{header.data_offset} << 32 | packed_mark | static_cast<std::uint64_t>(stride * finest);
        words[1] = static_cast<std::uint64_t>(field[0].least) | std::uint64_t{field[0].width} << position_bits;
        for (unsigned i = 1; i < fields; ++i) {
            words[1] |= std::uint64_t{field[i].width} << (position_bits + 5 + (i - 1) * 4);
            words[2] |= (static_cast<std::uint64_t>(field[i].least) & low_bits(dc_bits)) << ((i - 1) * dc_bits);
        }
        std::size_t at = packed_head * 64;
        const auto put = [&](std::int64_t value, const PackedField &packed) {
            if (packed.width == 0) return;
            const auto bits = static_cast<std::uint64_t>(value - packed.least);
            words[at / 64] |= bits << (at % 64);
            if (at % 64 + packed.width > 64) words[at / 64 + 1] |= bits >> (64 - at % 64);
            at += packed.width;
        };
        for (std::size_t number = 0; number < count; ++number) {
            put(position_of(chosen(number)) - (number ? position_of(chosen(number - 1)) : 0), field[0]);
            for (unsigned i = 1; i < fields; ++i) put(dc_of(chosen(number), i - 1), field[i]);
        }
        Check check;
        for (const std::uint64_t word : words) check.add(word);
        words[2] |= check.bits() << check_bit;
        return words;
    }
    return {};
}

SeekRun next_run(const SeekStates &states, const Region &mcus, int columns, int row, int bottom) {
    const int step = states.step();
    SeekRun run;
    run.top = row, run.bottom = row + 1;
    run.first = (row * columns + mcus.left) / step;
    const auto at = [&](int next) { return (next * columns + mcus.left) / step * step; };
    while (run.bottom < bottom && at(run.bottom) <= (run.bottom - 1) * columns + mcus.right) ++run.bottom;
    const int end = (run.bottom - 1) * columns + mcus.right;
    run.last = std::min(divide_up(end, step), states.last());
    return run;
}

int rows_of_lane(const Region &mcus, int row) {
    return std::min(std::max(BUSHEL_JPEG_LANE / mcus.width(), 1), divide_up(mcus.bottom - row, 2));
}

std::pair<std::size_t, std::size_t> bytes_of_run(const SeekStates &states, const SeekRun &run, std::size_t data_offset,
                                                 std::size_t size) {
    const std::size_t begin = data_offset + states[run.first].offset;
    if (run.last == states.last()) return {begin, size};
    // The byte of the state may hold bits of the MCU before it, and may be an FF before a stuffed zero.
    return {begin, std::min(data_offset + states[run.last].offset + 2, size)};
}

std::vector<std::pair<std::size_t, std::size_t>> seek_ranges(const SeekStates &states, const JpegHeader &header,
                                                             std::size_t size, const Region &mcus) {
    const JpegGrid grid(header);
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (int top = mcus.top, bottom = top, lane = 0, rows = 0; top < mcus.bottom; top = bottom, lane = 1 - lane) {
        if (lane == 0) rows = rows_of_lane(mcus, top);
        bottom = std::min(top + rows, mcus.bottom);
        for (int row = top; row < bottom;) {
            const SeekRun run = next_run(states, mcus, grid.columns, row, bottom);
            const auto [begin, end] = bytes_of_run(states, run, header.data_offset, size);
            if (!ranges.empty() && begin <= ranges.back().second) {
                ranges.back().second = std::max(end, ranges.back().second);
            } else {
                ranges.emplace_back(begin, end);
            }
            row = run.bottom;
        }
    }
    return ranges;
}

}  // namespace bushel
