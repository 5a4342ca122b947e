// Reading a scan from the states of a seek table, and making the table.
#include "jpeg/scan.hpp"

#include <algorithm>
#include <cstring>

#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

constexpr std::uint8_t stuffed = 0xFF;  // a zero follows it, which SegmentBits removes

// Return the number of zeros that are stuffed between two places. The sums of bytes are short, so that they stay bytes
// in the vectors that compilers make of them.
BUSHEL_VECTORS std::ptrdiff_t count_stuffed(const std::uint8_t *at, const std::uint8_t *end) {
    constexpr std::ptrdiff_t most = 128;
    std::ptrdiff_t total = 0;
    for (; end - at >= most; at += most) {
        std::uint8_t sum = 0;
        for (std::ptrdiff_t i = 0; i < most; ++i) sum = static_cast<std::uint8_t>(sum + (at[i] == stuffed));
        total += sum;
    }
    for (; at < end; ++at) total += *at == stuffed;
    return total;
}

// Move `at` by as many bytes of coded data, without counting zeros after FF.
void advance(const std::uint8_t *&at, std::size_t count) {
    while (count > 0) {
        const void *found = std::memchr(at, stuffed, count);
        if (!found) {
            at += count;
            return;
        }
        const auto *zero = static_cast<const std::uint8_t *>(found) + 1;
        count -= static_cast<std::size_t>(zero - at);
        at = zero + 1;
    }
}

}  // namespace

bool ScanDecoder::begin(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan,
                        const SeekTable &table) {
    if (!states_.read(table, header, size) || !set_up(data, size, header, plan)) return false;
    way_ = Way::runs;
    planes_.set_up(plan_, max_lanes * rows_of_lane(plan_.mcus, next_row_));
    if (plan_.mcus.width() < columns_) {  // MCUs are skipped
        for (int number = 0; number < plan_.planes; ++number) {
            if (component_[number].ac->is_repeated()) component_[number].ac->make_strides();
        }
    }
    return true;
}

// Decode two bands of rows at once, so that the processor works on one while it waits for the other.
bool ScanDecoder::read_runs() {
    const int distance = rows_of_lane(plan_.mcus, next_row_), top = next_row_;
    const int bottoms[] = {top + distance, std::min(top + 2 * distance, plan_.mcus.bottom)};
    for (int row = top; row < bottoms[0]; ++row) {
        const int lanes = row + distance < bottoms[1] ? 2 : 1;
        for (int i = 0; i < lanes; ++i) {
            Lane &lane = lane_[i];
            const int its_row = row + i * distance;
            if (row == top || its_row == lane.run.bottom) {
                if (row > top && !end_run(lane)) return false;
                begin_run(lane, its_row, bottoms[i]);
            }
        }
        const int first = row * columns_ + plan_.mcus.left, second = first + distance * columns_;
        if (lanes == 2 ? !skip_both({first, second}) : !skip_to(lane_[0], first)) return false;
        if (!read_row(row, lanes, distance)) return false;
    }
    next_row_ = bottoms[1];
    return end_run(lane_[0]) && (bottoms[1] == bottoms[0] || end_run(lane_[1]));
}

void ScanDecoder::begin_run(Lane &lane, int row, int bottom) {
    lane.run = next_run(states_, plan_.mcus, columns_, row, bottom);
    const SeekState state = states_[lane.run.first];
    const auto [begin, end] = bytes_of_run(states_, lane.run, data_offset_, size_);
    lane.bits.set(data_ + begin, end - begin);
    lane.reader.begin_at(lane.bits, state.bit);
    std::copy(std::begin(state.dc), std::end(state.dc), std::begin(lane.dc_prediction));
    lane.at = mcu_of_state(lane.run.first);
    lane.check = lane.run.first + 1;
}

// The first state that a run meets shows whether it began at a right one.
bool ScanDecoder::end_run(Lane &lane) {
    if (lane.check != checked && !skip_to(lane, mcu_of_state(lane.check))) return false;
    return lane.reader.is_valid(lane.bits, false, false);
}

bool ScanDecoder::skip_to(Lane &lane, int mcu) {
    while (lane.at < mcu) {
        const int next = next_stop(lane, mcu);
        if (!move(&lane, 1, next - lane.at)) return false;
        lane.at = next;
        if (!compare(lane)) return false;
    }
    return true;
}

// Skip MCUs of two lanes at once as long as both have some to skip.
bool ScanDecoder::skip_both(const int (&mcus)[max_lanes]) {
    while (lane_[0].at < mcus[0] && lane_[1].at < mcus[1]) {
        const int count =
            std::min(next_stop(lane_[0], mcus[0]) - lane_[0].at, next_stop(lane_[1], mcus[1]) - lane_[1].at);
        if (!move(lane_, max_lanes, count)) return false;
        for (Lane &lane : lane_) {
            lane.at += count;
            if (!compare(lane)) return false;
        }
    }
    return skip_to(lane_[0], mcus[0]) && skip_to(lane_[1], mcus[1]);
}

// Decode the MCUs of a row, and of the row `distance` below it.
bool ScanDecoder::read_row(int row, int lanes, int distance) {
    for (int column = plan_.mcus.left; column < plan_.mcus.right;) {
        int next = plan_.mcus.right;
        for (int i = 0; i < lanes; ++i) {
            const Lane &lane = lane_[i];
            if (lane.check != checked) next = std::min(next, column + mcu_of_state(lane.check) - lane.at);
        }
        if (!read_lanes(lanes, row, column, next, distance)) return false;
        for (int i = 0; i < lanes; ++i) {
            lane_[i].at += next - column;
            if (!compare(lane_[i])) return false;
        }
        column = next;
    }
    return true;
}

// Compare a lane that has reached a state with it: the first one that a run meets, and the last one before its end. In
// between there is nothing to learn.
bool ScanDecoder::compare(Lane &lane) {
    if (lane.check == checked || lane.at < mcu_of_state(lane.check)) return true;
    const int number = lane.check, end = (lane.run.bottom - 1) * columns_ + plan_.mcus.right;
    const int last = end == count_ ? states_.last() : end / states_.step();
    lane.check = number < last ? last : checked;
    if (number == states_.last() && !lane.reader.is_valid(lane.bits, true, true)) return false;

    const SeekState state = states_[number];
    const std::uint8_t *const begin = data_ + data_offset_ + states_[lane.run.first].offset;
    const std::uint8_t *const there = data_ + data_offset_ + state.offset;
    const std::ptrdiff_t zeros = count_stuffed(begin, there);
    return lane.reader.position(lane.bits) == (there - begin - zeros) * 8 + static_cast<std::ptrdiff_t>(state.bit) &&
           std::equal(state.dc, state.dc + plan_.planes, lane.dc_prediction);
}

std::vector<std::uint64_t> ScanDecoder::make_seek_table(const std::uint8_t *data, std::size_t size,
                                                        const JpegHeader &header, int pixels) {
    constexpr int few = 1000;  // MCUs for which strides take longer to make than they save
    if (!set_up(data, size, header, plan_region(header, {0, 0, header.width, header.height}, 1, 3))) return {};
    for (int i = 0; i < plan_.planes; ++i) {
        if (count_ > few) component_[i].ac->make_strides();
    }
    Lane &lane = lane_[0];
    lane.bits.set(data + header.data_offset, size - header.data_offset);
    lane.reader.begin_at(lane.bits, 0);
    std::fill(std::begin(lane.dc_prediction), std::end(lane.dc_prediction), 0);
    const int step = finest_step(header);
    std::vector<std::uint64_t> states;
    states.reserve(static_cast<std::size_t>(count_ / step + 1));
    const std::uint8_t *const begin = data + header.data_offset, *at = begin;
    std::size_t bytes = 0;  // before `at`, without stuffed zeros
    for (int mcu = 0; mcu < count_; mcu += step) {
        if (!move(&lane, 1, std::min(step, count_ - mcu)) || !lane.reader.is_valid(lane.bits, false, false)) return {};
        const auto bits = static_cast<std::size_t>(lane.reader.position(lane.bits));
        advance(at, bits / 8 - bytes);
        bytes = bits / 8;
        SeekState state;
        state.offset = static_cast<std::size_t>(at - begin), state.bit = static_cast<unsigned>(bits % 8);
        std::copy(lane.dc_prediction, lane.dc_prediction + plan_.planes, state.dc);
        if (!state.is_storable()) return {};
        states.push_back(state.word());
    }
    if (!lane.reader.is_valid(lane.bits, true, true)) return {};
    return pack_seek_table(states, header, size, pixels);
}

}  // namespace bushel
