#include "jpeg/seek.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

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

int divide_up(int value, int divisor) { return (value + divisor - 1) / divisor; }

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
    std::uint64_t word = std::uint64_t{offset} << 3 | bit;
    for (unsigned i = 0; i < 3; ++i) {
        word |= (static_cast<std::uint64_t>(dc[i]) & ((1U << dc_bits) - 1)) << (first_dc_bit + i * dc_bits);
    }
    return word;
}

SeekState SeekState::from_word(std::uint64_t word) {
    SeekState state;
    state.bit = static_cast<unsigned>(word & 7);
    state.offset = static_cast<std::size_t>(word >> 3 & ((1U << offset_bits) - 1));
    for (unsigned i = 0; i < 3; ++i) {
        const auto bits = static_cast<int>(word >> (first_dc_bit + i * dc_bits) & ((1U << dc_bits) - 1));
        state.dc[i] = bits < dc_limit ? bits : bits - 2 * dc_limit;
    }
    return state;
}

std::uint64_t SeekTable::word(int number) const {
    std::uint64_t value = 0;
    const std::uint8_t *bytes = words_ + static_cast<std::size_t>(number) * sizeof value;
    for (unsigned i = 0; i < sizeof value; ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
    return value;
}

std::uint64_t SeekTable::first_word(std::size_t data_offset, int step) {
    return std::uint64_t{data_offset} << 32 | static_cast<std::uint32_t>(step);
}

bool SeekTable::fits(const JpegHeader &header, std::size_t size) const {
    const int total = count_mcus(JpegGrid(header));
    if (size_ % sizeof(std::uint64_t) || size_ == 0 || total == 0 || !is_seekable(header)) return false;
    const auto given = static_cast<std::uint32_t>(word(0));
    if (given < 1 || given > static_cast<std::uint32_t>(total) || word(0) >> 32 != header.data_offset) return false;
    if (size_ / sizeof(std::uint64_t) != static_cast<std::size_t>(divide_up(total, step()) + 1)) return false;
    std::size_t before = 0;
    const std::uint64_t mask = (std::uint64_t{1} << first_dc_bit) - 1;
    for (int number = 1; number <= last(); ++number) {
        const auto bits = static_cast<std::size_t>(word(number) & mask);
        if (bits <= before) return false;
        before = bits;
    }
    return before / 8 < size - header.data_offset;
}

bool is_seekable(const JpegHeader &header) {
    return is_usual_jpeg(header) &&
           (header.restart_interval == 0 || header.restart_interval >= count_mcus(JpegGrid(header)));
}

int choose_step(const JpegHeader &header, std::size_t size, int pixels) {
    const JpegGrid grid(header);
    const int total = count_mcus(grid);
    const std::size_t most = size / bytes_per_word;  // one of them for the table's place in the index
    if (total == 0 || most < 4) return 0;
    const int room = static_cast<int>(std::min<std::size_t>(most - 2, std::numeric_limits<int>::max() / 2));
    const int step = std::max({pixels / grid.mcu_width, divide_up(total, room), 1});
    return step < total ? step : 0;
}

SeekRun next_run(const SeekTable &table, const Region &mcus, int columns, int row, int bottom) {
    const int step = table.step();
    SeekRun run;
    run.top = row, run.bottom = row + 1;
    run.first = (row * columns + mcus.left) / step;
    const auto at = [&](int next) { return (next * columns + mcus.left) / step * step; };
    while (run.bottom < bottom && at(run.bottom) <= (run.bottom - 1) * columns + mcus.right) ++run.bottom;
    const int end = (run.bottom - 1) * columns + mcus.right;
    run.last = std::min(divide_up(end, step), table.last());
    return run;
}

int rows_of_lane(const Region &mcus, int row) {
    return std::min(std::max(BUSHEL_JPEG_LANE / mcus.width(), 1), divide_up(mcus.bottom - row, 2));
}

std::pair<std::size_t, std::size_t> bytes_of_run(const SeekTable &table, const SeekRun &run, std::size_t data_offset,
                                                 std::size_t size) {
    const std::size_t begin = data_offset + table[run.first].offset;
    if (run.last == table.last()) return {begin, size};
    // The byte of the state may hold bits of the MCU before it, and may be an FF before a stuffed zero.
    return {begin, std::min(data_offset + table[run.last].offset + 2, size)};
}

std::vector<std::pair<std::size_t, std::size_t>> seek_ranges(const SeekTable &table, const JpegHeader &header,
                                                             std::size_t size, const Region &mcus) {
    const JpegGrid grid(header);
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (int top = mcus.top, bottom = top, lane = 0, rows = 0; top < mcus.bottom; top = bottom, lane = 1 - lane) {
        if (lane == 0) rows = rows_of_lane(mcus, top);
        bottom = std::min(top + rows, mcus.bottom);
        for (int row = top; row < bottom;) {
            const SeekRun run = next_run(table, mcus, grid.columns, row, bottom);
            const auto [begin, end] = bytes_of_run(table, run, header.data_offset, size);
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
