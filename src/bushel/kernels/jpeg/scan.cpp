#include "jpeg/scan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

void begin_segment(SegmentBits &bits, BitReader &reader, int (&dc_prediction)[3], const std::uint8_t *data,
                   const std::size_t *offsets) {
    bits.set(data + offsets[0], offsets[1] - offsets[0]);
    reader.begin_at(bits, 0);
    std::fill(std::begin(dc_prediction), std::end(dc_prediction), 0);
}

// Whether the DC coefficients fit 16 bits, as in every image. Larger ones could overflow when more is added to them.
bool fits_16_bits(const int (&dc_prediction)[3]) {
    const auto shifted = [&dc_prediction](int i) { return static_cast<unsigned>(dc_prediction[i]) + 0x8000; };
    return (shifted(0) | shifted(1) | shifted(2)) <= 0xFFFF;
}

bool is_inside(const Region &blocks, int column, int row) {
    return column >= blocks.left && column < blocks.right && row >= blocks.top && row < blocks.bottom;
}

}  // namespace

bool ScanDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan) {
    plan_ = plan;
    if (!set_up(header)) return false;
    const JpegGrid grid(header);
    const std::int64_t total = std::int64_t{grid.columns} * grid.rows;
    if (total > std::numeric_limits<int>::max() / 2) return false;
    const int count = static_cast<int>(total);
    const int interval = header.restart_interval ? std::min(header.restart_interval, count) : count;
    std::vector<std::size_t> offsets{header.data_offset, size};
    if (interval < count) {
        const auto segments = static_cast<std::size_t>((count - 1) / interval + 1);
        offsets = find_restarts(data, size, header.data_offset, segments);
    }
    if (offsets.empty()) return false;
    const bool done = grid.per_segment > 0 ? read_rows(data, offsets.data(), interval, grid.columns)
                                           : read_segments(data, offsets.data(), interval, grid.columns, count);
    if (!done) std::memset(static_cast<void *>(blocks_), 0, sizeof blocks_);
    return done;
}

bool ScanDecoder::set_up(const JpegHeader &header) {
    if (!set_up_tables(header)) return false;
    set_up_planes();
    return true;
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

void ScanDecoder::set_up_planes() {
    constexpr std::size_t padding = 64;
    std::size_t bytes[3] = {}, total = 0;
    for (int i = 0; i < plan_.planes; ++i) {
        Plane &plane = plane_[i];
        plane.plan = plan_.plane[i];
        const auto side = static_cast<std::size_t>(plane.plan.side);
        plane.stride = static_cast<std::size_t>(plane.plan.blocks.width()) * side;
        bytes[i] = plane.stride * static_cast<std::size_t>(plane.plan.blocks.height()) * side + padding;
        total += bytes[i];
    }
    std::uint8_t *memory = samples_.bytes(total);
    for (int i = 0; i < plan_.planes; memory += bytes[i++]) plane_[i].samples = memory;
}

// Read the needed segments of a tiled image, two rows of segments at once.
bool ScanDecoder::read_rows(const std::uint8_t *data, const std::size_t *offsets, int interval, int columns) {
    const Region &wanted = plan_.mcus;
    const int segments_across = columns / interval;
    for (int row = wanted.top; row < wanted.bottom; row += max_lanes) {
        const int lanes = std::min(max_lanes, wanted.bottom - row);
        for (int column = wanted.left / interval; column * interval < wanted.right; ++column) {
            const int begin = column * interval, end = begin + interval;
            const int first = std::max(begin, wanted.left), last = std::min(end, wanted.right);
            for (int i = 0; i < lanes; ++i) {
                Lane &lane = lane_[i];
                begin_segment(lane.bits, lane.reader, lane.dc_prediction, data,
                              offsets + (row + i) * segments_across + column);
                if (!skip_mcus<false>(lane, first - begin)) return false;
            }
            if (!read_lanes(lanes, row, first, last, 1)) return false;
            for (int i = 0; i < lanes; ++i) {
                if (!lane_[i].reader.is_valid(lane_[i].bits, last == end, false)) return false;
            }
        }
    }
    return true;
}

// Read the needed segments of an image whose segments have any length.
bool ScanDecoder::read_segments(const std::uint8_t *data, const std::size_t *offsets, int interval, int columns,
                                int count) {
    if (plan_.mcus.top > 0 || plan_.mcus.width() < columns) {  // many blocks are skipped
        for (int number = 0; number < plan_.planes; ++number) component_[number].ac->make_strides();
    }
    Lane &lane = lane_[0];
    const int start = plan_.mcus.top * columns / interval * interval;
    for (int first = start; first < plan_.mcus.bottom * columns; first += interval) {
        const int last = std::min(first + interval, count), needed = needed_end(first, last, columns);
        if (needed == first) continue;
        begin_segment(lane.bits, lane.reader, lane.dc_prediction, data, offsets + first / interval);
        if (!read_segment(first, needed, columns)) return false;
        if (!lane.reader.is_valid(lane.bits, needed == last, last == count)) return false;
    }
    return true;
}

// Return the end of the needed MCUs in a segment of the MCUs from first to last; first if none is needed.
int ScanDecoder::needed_end(int first, int last, int columns) const {
    const Region &wanted = plan_.mcus;
    const int top = std::max(first / columns, wanted.top), bottom = std::min((last - 1) / columns, wanted.bottom - 1);
    for (int row = bottom; row >= top; --row) {
        const int begin = std::max(first, row * columns + wanted.left);
        const int end = std::min(last, row * columns + wanted.right);
        if (begin < end) return end;
    }
    return first;
}

bool ScanDecoder::read_segment(int first, int last, int columns) {
    for (int at = first; at < last;) {
        const int row = at / columns, next = std::min((row + 1) * columns, last);
        int begin = next, end = next;
        if (row >= plan_.mcus.top) {
            begin = std::min(std::max(row * columns + plan_.mcus.left, at), next);
            end = std::min(std::max(row * columns + plan_.mcus.right, begin), next);
        }
        if (!skip_mcus<true>(lane_[0], begin - at) || !read_mcus<1>(row, begin - row * columns, end - row * columns) ||
            !skip_mcus<true>(lane_[0], next - end)) {
            return false;
        }
        at = next;
    }
    return true;
}

// Decode MCUs of one row for each lane, `distance` rows apart.
bool ScanDecoder::read_lanes(int lanes, int row, int first, int last, int distance) {
    return lanes == 1 ? read_mcus<1>(row, first, last) : read_mcus<max_lanes>(row, first, last, distance);
}

template <int Lanes>
BUSHEL_VECTORS bool ScanDecoder::read_mcus(int row, int first, int last, int distance) {
    BitReader reader[Lanes];
    for (int i = 0; i < Lanes; ++i) reader[i] = lane_[i].reader;
    for (int mcu = first; mcu < last; ++mcu) {
        Block *next = blocks_;
        for (int number = 0; number < plan_.planes; ++number) {
            const int h_samp_factor = plane_[number].plan.h_samp_factor,
                      v_samp_factor = plane_[number].plan.v_samp_factor;
            for (int y = 0; y < v_samp_factor; ++y) {
                int block_row[Lanes];
                for (int i = 0; i < Lanes; ++i) block_row[i] = (row + i * distance) * v_samp_factor + y;
                for (int x = 0; x < h_samp_factor; ++x) {
                    if (!read_blocks<Lanes>(reader, number, block_row, mcu * h_samp_factor + x, next)) return false;
                }
            }
        }
        for (int i = 0; i < Lanes; ++i) {
            if (reader[i].next > lane_[i].bits.end() + sizeof(std::uint64_t)) return false;
            if (!fits_16_bits(lane_[i].dc_prediction)) return false;
        }
        if (!transform(next)) return false;
    }
    for (int i = 0; i < Lanes; ++i) lane_[i].reader = reader[i];
    return true;
}

template <int Lanes>
BUSHEL_VECTORS_INLINE bool ScanDecoder::read_blocks(BitReader (&reader)[Lanes], int number, const int (&row)[Lanes],
                                                    int column, Block *&next) {
    const HuffmanTable &dc = *component_[number].dc, &ac = *component_[number].ac;
    const Plane &plane = plane_[number];
    bool needed[Lanes];
    for (int i = 0; i < Lanes; ++i) {
        if (!take_dc(reader[i], dc, lane_[i].dc_prediction[number])) return false;
        needed[i] = is_inside(plane.plan.blocks, column, row[i]);
        if (!needed[i]) continue;
        next[i].coefficients[0] = static_cast<std::int16_t>(lane_[i].dc_prediction[number]);
        next[i].component = number;
        next[i].out = plane.block(column, row[i]);
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
            if (!skip_ac(reader[i], ac)) return false;
            continue;
        }
        if (i > 0 && !needed[0]) std::swap(next[0], next[i]);
        next->count = take_ac(reader[i], ac, next->coefficients);
        if (next->count == bad_code) return false;
        ++next;
    }
    return true;
}

// Skip MCUs, several codes at once if the tables for that have been made.
bool ScanDecoder::move(Lane &lane, int count) {
    bool strides = true;
    for (int number = 0; number < plan_.planes; ++number) strides = strides && component_[number].ac->has_strides();
    return strides ? skip_mcus<true>(lane, count) : skip_mcus<false>(lane, count);
}

template <bool Strides>
BUSHEL_VECTORS bool ScanDecoder::skip_mcus(Lane &lane, int count) {
    BitReader reader = lane.reader;
    const std::uint8_t *const end = lane.bits.end() + sizeof(std::uint64_t);
    for (int mcu = 0; mcu < count; ++mcu) {
        for (int number = 0; number < plan_.planes; ++number) {
            const HuffmanTable &dc = *component_[number].dc, &ac = *component_[number].ac;
            for (int blocks = plan_.plane[number].h_samp_factor * plan_.plane[number].v_samp_factor; blocks > 0;
                 --blocks) {
                if (!take_dc(reader, dc, lane.dc_prediction[number])) return false;
                if (!(Strides ? stride_ac(reader, ac) : skip_ac(reader, ac))) return false;
            }
        }
        if (reader.next > end || !fits_16_bits(lane.dc_prediction)) return false;
    }
    lane.reader = reader;
    return true;
}

// Transform the decoded blocks of an MCU together: a processor stalls when it reads in large pieces what it has just
// written in small ones.
bool ScanDecoder::transform(Block *end) {
    bool good = true;
    for (Block *block = blocks_; block < end; ++block) {
        const Component &component = component_[block->component];
        good &= component.transform(block->coefficients, component.quantisers, block->count - 1, block->out,
                                    plane_[block->component].stride);
        if (block->count > 1) std::memset(block->coefficients, 0, sizeof block->coefficients);
    }
    return good;
}

}  // namespace bushel
