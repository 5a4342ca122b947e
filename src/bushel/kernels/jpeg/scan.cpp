#include "jpeg/scan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

// Whether the DC coefficients fit 16 bits, as in every image. Larger ones could overflow when more is added to them.
bool fits_16_bits(const int (&dc_prediction)[3]) {
    const auto shifted = [&dc_prediction](int i) { return static_cast<unsigned>(dc_prediction[i]) + 0x8000; };
    return (shifted(0) | shifted(1) | shifted(2)) <= 0xFFFF;
}

}  // namespace

bool ScanDecoder::begin(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan) {
    if (!set_up(data, size, header, plan)) return false;
    interval_ = header.restart_interval ? std::min(header.restart_interval, count_) : count_;
    offsets_.assign({header.data_offset, size});
    if (interval_ < count_) {
        const auto segments = static_cast<std::size_t>((count_ - 1) / interval_ + 1);
        offsets_ = find_restarts(data, size, header.data_offset, segments);
        if (offsets_.empty()) return false;
    }
    segment_ = none;
    way_ = JpegGrid(header).per_segment > 0 ? Way::tiles : Way::segments;
    planes_.set_up(plan_, way_ == Way::tiles ? max_lanes : 1);
    if (way_ == Way::segments && (plan_.mcus.top > 0 || plan_.mcus.width() < columns_)) {  // many blocks are skipped
        for (int number = 0; number < plan_.planes; ++number) component_[number].ac->make_strides();
    }
    return true;
}

bool ScanDecoder::read() {
    const bool done = way_ == Way::tiles ? read_tiles() : way_ == Way::segments ? read_segments() : read_runs();
    if (!done) std::memset(static_cast<void *>(blocks_), 0, sizeof blocks_);
    return done;
}

bool ScanDecoder::set_up(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan) {
    const JpegGrid grid(header);
    const std::int64_t total = std::int64_t{grid.columns} * grid.rows;
    if (total > std::numeric_limits<int>::max() / 2) return false;
    plan_ = plan;
    data_ = data, size_ = size, data_offset_ = header.data_offset;
    columns_ = grid.columns, count_ = static_cast<int>(total);
    next_row_ = plan.mcus.top;
    return set_up_tables(header);
}

bool ScanDecoder::set_up_tables(const JpegHeader &header) {
    for (int i = 0; i < plan_.planes; ++i) {
        const JpegComponent &given = header.component[i];
        Component &component = component_[i];
        // Cr has the Huffman tables of Cb in nearly all files.
        const bool same = i > 0 && given.dc.data == header.component[i - 1].dc.data &&
                          given.ac.data == header.component[i - 1].ac.data;
        if (!same && (!dc_[i].set(given.dc, HuffmanTable::Kind::dc) || !ac_[i].set(given.ac, HuffmanTable::Kind::ac))) {
            return false;
        }
        component.dc = same ? component_[i - 1].dc : &dc_[i];
        component.ac = same ? component_[i - 1].ac : &ac_[i];
        component.transform = inverse_dct(plan_.plane[i].side);
        for (int k = 0; k < 64; ++k) component.quantisers.factor[natural_order[k]] = given.quantisers[k];
    }
    return true;
}

// Read the needed segments of a tiled image, two rows of segments at once.
bool ScanDecoder::read_tiles() {
    const Region &wanted = plan_.mcus;
    const int lanes = std::min(max_lanes, wanted.bottom - next_row_);
    for (int column = wanted.left / interval_; column * interval_ < wanted.right; ++column) {
        const int begin = column * interval_, end = begin + interval_;
        const int first = std::max(begin, wanted.left), last = std::min(end, wanted.right);
        for (int i = 0; i < lanes; ++i) {
            begin_segment(lane_[i], (next_row_ + i) * (columns_ / interval_) + column);
        }
        if (first > begin && !(lanes == 1 ? skip_mcus<false, 1>(lane_, first - begin)
                                          : skip_mcus<false, max_lanes>(lane_, first - begin))) {
            return false;
        }
        if (!read_lanes(lanes, next_row_, first, last, 1)) return false;
        for (int i = 0; i < lanes; ++i) {
            if (!lane_[i].reader.is_valid(lane_[i].bits, last == end, false)) return false;
        }
    }
    next_row_ += lanes;
    return true;
}

// Read a row of MCUs from segments of any length. Segments that have none of the needed MCUs are not read.
bool ScanDecoder::read_segments() {
    Lane &lane = lane_[0];
    const int begin = next_row_ * columns_, end = begin + plan_.mcus.right;
    for (int at = begin + plan_.mcus.left; at < end;) {
        if (segment_ == none || at >= (segment_ + 1) * interval_) {
            if (!end_segment(lane)) return false;
            segment_ = at / interval_;
            begin_segment(lane, segment_);
            lane.at = segment_ * interval_;
        }
        const int last = std::min((segment_ + 1) * interval_, end);
        if (!skip_mcus<true, 1>(&lane, at - lane.at) || !read_mcus<1>(next_row_, at - begin, last - begin))
            return false;
        lane.at = at = last;
    }
    ++next_row_;
    return next_row_ < plan_.mcus.bottom || end_segment(lane);
}

void ScanDecoder::begin_segment(Lane &lane, int number) {
    const std::size_t *offsets = offsets_.data() + number;
    lane.bits.set(data_ + offsets[0], offsets[1] - offsets[0]);
    lane.reader.begin_at(lane.bits, 0);
    std::fill(std::begin(lane.dc_prediction), std::end(lane.dc_prediction), 0);
}

bool ScanDecoder::end_segment(Lane &lane) {
    if (segment_ == none) return true;
    const int end = std::min((segment_ + 1) * interval_, count_);
    return lane.reader.is_valid(lane.bits, lane.at == end, end == count_);
}

// Decode MCUs of one row for each lane, `distance` rows apart.
bool ScanDecoder::read_lanes(int lanes, int row, int first, int last, int distance) {
    return lanes == 1 ? read_mcus<1>(row, first, last) : read_mcus<max_lanes>(row, first, last, distance);
}

// The blocks of one number (first, second, ...) in all MCUs of a row.
template <int Lanes>
struct ScanDecoder::BlockRow {
    int component, step, x;  // a component with `step` blocks across in an MCU; this is number `x`
    int left, right[Lanes];  // the needed blocks; right is 0 if the whole row is not needed
    int side;
    std::uint8_t *out[Lanes];  // of block `left`
};

template <int Lanes>
int ScanDecoder::block_rows(int row, int distance, BlockRow<Lanes> *rows) const {
    int count = 0;
    for (int number = 0; number < plan_.planes; ++number) {
        const Plane &plane = planes_[number];
        const PlanePlan &plan = plane.plan;
        for (int y = 0; y < plan.v_samp_factor; ++y) {
            for (int x = 0; x < plan.h_samp_factor; ++x) {
                BlockRow<Lanes> &blocks = rows[count++];
                blocks.component = number, blocks.step = plan.h_samp_factor, blocks.x = x;
                blocks.left = plan.blocks.left, blocks.side = plan.side;
                for (int i = 0; i < Lanes; ++i) {
                    const int block_row = (row + i * distance) * plan.v_samp_factor + y;
                    const bool is_needed = block_row >= plan.blocks.top && block_row < plan.blocks.bottom;
                    blocks.right[i] = is_needed ? plan.blocks.right : 0;
                    blocks.out[i] = plane.row(block_row * plan.side);
                }
            }
        }
    }
    return count;
}

template <int Lanes>
BUSHEL_VECTORS bool ScanDecoder::read_mcus(int row, int first, int last, int distance) {
    BlockRow<Lanes> rows[max_blocks];
    const int count = block_rows<Lanes>(row, distance, rows);
    BitReader reader[Lanes];
    for (int i = 0; i < Lanes; ++i) reader[i] = lane_[i].reader;
    for (int mcu = first; mcu < last; ++mcu) {
        Block *next = blocks_;
        for (int number = 0; number < count; ++number) {
            if (!read_blocks<Lanes>(reader, rows[number], mcu, next)) return false;
        }
        for (int i = 0; i < Lanes; ++i) {
            if (reader[i].next > lane_[i].bits.limit() && !go_on(reader[i], lane_[i].bits)) return false;
            if (!fits_16_bits(lane_[i].dc_prediction)) return false;
        }
        if (!transform(next)) return false;
    }
    for (int i = 0; i < Lanes; ++i) lane_[i].reader = reader[i];
    return true;
}

template <int Lanes>
BUSHEL_VECTORS_INLINE bool ScanDecoder::read_blocks(BitReader (&reader)[Lanes], const BlockRow<Lanes> &blocks, int mcu,
                                                    Block *&next) {
    const HuffmanTable &dc = *component_[blocks.component].dc, &ac = *component_[blocks.component].ac;
    const int column = mcu * blocks.step + blocks.x;
    const auto offset = static_cast<std::size_t>((column - blocks.left) * blocks.side);
    bool needed[Lanes];
    for (int i = 0; i < Lanes; ++i) {
        int &dc_prediction = lane_[i].dc_prediction[blocks.component];
        if (!take_dc(reader[i], dc, dc_prediction)) return false;
        needed[i] = column >= blocks.left && column < blocks.right[i];
        if (!needed[i]) continue;
        next[i].coefficients[0] = static_cast<std::int16_t>(dc_prediction);
        next[i].component = blocks.component;
        next[i].out = blocks.out[i] + offset;
    }
    if constexpr (Lanes == 2) {
        if (needed[0] && needed[1]) {
            take_two_ac(reader[0], reader[1], ac, next[0].coefficients, next[1].coefficients, next[0].count,
                        next[1].count);
            const bool good = next[0].count != bad_code && next[1].count != bad_code;
            next += 2;
            return good;
        }
    }
    for (int i = 0; i < Lanes; ++i) {
        if (!needed[i]) {
            if (!skip_ac<false>(reader[i], ac)) return false;
            continue;
        }
        if (i > 0 && !needed[0]) std::swap(next[0], next[i]);
        next->count = take_ac(reader[i], ac, next->coefficients);
        if (next->count == bad_code) return false;
        ++next;
    }
    return true;
}

// Skip MCUs of one or two lanes, several codes at once if the tables for that have been made.
bool ScanDecoder::move(Lane *lanes, int number, int mcus) {
    bool strides = true;
    for (int i = 0; i < plan_.planes; ++i) strides = strides && component_[i].ac->has_strides();
    if (number == 1) return strides ? skip_mcus<true, 1>(lanes, mcus) : skip_mcus<false, 1>(lanes, mcus);
    return strides ? skip_mcus<true, max_lanes>(lanes, mcus) : skip_mcus<false, max_lanes>(lanes, mcus);
}

template <bool Strides, int Lanes>
BUSHEL_VECTORS bool ScanDecoder::skip_mcus(Lane *lanes, int count) {
    BitReader reader[Lanes];
    for (int i = 0; i < Lanes; ++i) reader[i] = lanes[i].reader;
    for (int mcu = 0; mcu < count; ++mcu) {
        for (int number = 0; number < plan_.planes; ++number) {
            const HuffmanTable &dc = *component_[number].dc, &ac = *component_[number].ac;
            for (int blocks = plan_.plane[number].h_samp_factor * plan_.plane[number].v_samp_factor; blocks > 0;
                 --blocks) {
                for (int i = 0; i < Lanes; ++i) {
                    if (!take_dc(reader[i], dc, lanes[i].dc_prediction[number])) return false;
                }
                if constexpr (Lanes == 1) {
                    if (!skip_ac<Strides>(reader[0], ac)) return false;
                } else {
                    if (!skip_two_ac<Strides>(reader[0], reader[1], ac)) return false;
                }
            }
        }
        for (int i = 0; i < Lanes; ++i) {
            if (reader[i].next > lanes[i].bits.limit() && !go_on(reader[i], lanes[i].bits)) return false;
            if (!fits_16_bits(lanes[i].dc_prediction)) return false;
        }
    }
    for (int i = 0; i < Lanes; ++i) lanes[i].reader = reader[i];
    return true;
}

// Transform the decoded blocks of an MCU together: a processor stalls when it reads in large pieces what it has just
// written in small ones.
bool ScanDecoder::transform(Block *end) {
    bool good = true;
    for (Block *block = blocks_; block < end; ++block) {
        const Component &component = component_[block->component];
        good &= component.transform(block->coefficients, component.quantisers, block->count - 1, block->out,
                                    planes_[block->component].stride);
        if (block->count > 1) std::memset(block->coefficients, 0, sizeof block->coefficients);
    }
    return good;
}

}  // namespace bushel
