#include "jpeg_scan.hpp"

#ifdef BUSHEL_BASELINE
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "jpeg_tiles.hpp"

namespace bushel {

namespace {

void begin_segment(SegmentBits &bits, BitReader &reader, int (&predicted)[3], const std::uint8_t *data,
                   const std::size_t *begins) {
    bits.set(data + begins[0], begins[1] - begins[0]);
    reader = BitReader();
    reader.next = bits.begin();
    std::fill(std::begin(predicted), std::end(predicted), 0);
}

// Whether no more was read than there is and, at the end of a segment, what follows it does so at once. Behind the last
// one libjpeg does not look for more than a marker.
bool is_right(const BitReader &reader, const SegmentBits &bits, bool is_end, bool is_last) {
    const std::ptrdiff_t left = reader.left(bits);
    return left >= 0 && (!is_end || (bits.is_before_marker() && (is_last || left < 8)));
}

// Whether DC coefficients fit 16 bits, as those of images do; others, added up again and again, could overflow more.
bool is_possible(const int (&predicted)[3]) {
    const auto shifted = [&predicted](int i) { return static_cast<unsigned>(predicted[i]) + 0x8000; };
    return (shifted(0) | shifted(1) | shifted(2)) <= 0xFFFF;
}

bool is_inside(const Region &blocks, int column, int line) {
    return column >= blocks.left && column < blocks.right && line >= blocks.top && line < blocks.bottom;
}

}  // namespace

bool ScanDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const JpegTables &tables,
                       const RegionPlan &plan) {
    plan_ = plan;
    if (!prepare(tables)) return false;
    const JpegGrid grid(header);
    const std::int64_t total = std::int64_t{grid.columns} * grid.rows;
    if (total > std::numeric_limits<int>::max() / 2) return false;
    const int count = static_cast<int>(total);
    const int each = header.restart_interval ? std::min(header.restart_interval, count) : count;
    std::vector<std::size_t> begins{header.data, size};
    if (each < count) begins = find_restarts(data, size, header.data, static_cast<std::size_t>((count - 1) / each + 1));
    if (begins.empty()) return false;
    const bool done = grid.per_segment > 0 ? read_rows(data, begins.data(), each, grid.columns)
                                           : read_segments(data, begins.data(), each, grid.columns, count);
    if (!done) std::memset(static_cast<void *>(blocks_), 0, sizeof blocks_);
    return done;
}

// Tables and memory for each component.
bool ScanDecoder::prepare(const JpegTables &tables) {
    constexpr std::size_t beyond = 64;
    std::size_t bytes[3] = {}, total = 0;
    for (int i = 0; i < plan_.planes; ++i) {
        const ScanComponent &given = tables.component[i];
        Component &component = component_[i];
        // Red chroma has the tables of blue chroma in nearly all files.
        const bool same = i > 0 && given.dc.data == tables.component[i - 1].dc.data &&
                          given.ac.data == tables.component[i - 1].ac.data;
        if (!same && (!dc_[i].set(given.dc, HuffmanTable::Kind::dc) || !ac_[i].set(given.ac, HuffmanTable::Kind::ac))) {
            return false;
        }
        component.dc = same ? component_[i - 1].dc : &dc_[i];
        component.ac = same ? component_[i - 1].ac : &ac_[i];
        component.transform = inverse_dct(plan_.plane[i].side);
        for (int k = 0; k < 64; ++k) component.quantisers.factor[natural_order[k]] = given.quantisers[k];

        Plane &plane = plane_[i];
        plane.plan = plan_.plane[i];
        const auto side = static_cast<std::size_t>(plane.plan.side);
        plane.stride = static_cast<std::size_t>(plane.plan.blocks.width()) * side;
        bytes[i] = plane.stride * static_cast<std::size_t>(plane.plan.blocks.height()) * side + beyond;
        total += bytes[i];
    }
    std::uint8_t *memory = samples_.bytes(total);
    for (int i = 0; i < plan_.planes; memory += bytes[i++]) plane_[i].samples = memory;
    return true;
}

// The segments of a tiled image that hold what is needed, two rows of them at once.
bool ScanDecoder::read_rows(const std::uint8_t *data, const std::size_t *begins, int each, int columns) {
    const Region &wanted = plan_.mcus;
    const int across = columns / each;
    for (int row = wanted.top; row < wanted.bottom; row += most_lanes) {
        const int lanes = std::min(most_lanes, wanted.bottom - row);
        for (int column = wanted.left / each; column * each < wanted.right; ++column) {
            const int first = std::max(column * each, wanted.left), last = std::min((column + 1) * each, wanted.right);
            for (int i = 0; i < lanes; ++i) {
                Lane &lane = lane_[i];
                begin_segment(lane.bits, lane.reader, lane.predicted, data, begins + (row + i) * across + column);
                if (!skip_mcus<false>(lane, first - column * each)) return false;
            }
            if (!(lanes == 1 ? read_mcus<1>(row, first, last) : read_mcus<most_lanes>(row, first, last))) return false;
            for (int i = 0; i < lanes; ++i) {
                const bool is_end = last == (column + 1) * each;
                if (!is_right(lane_[i].reader, lane_[i].bits, is_end, false)) return false;
            }
        }
    }
    return true;
}

// Segments of any length that hold what is needed.
bool ScanDecoder::read_segments(const std::uint8_t *data, const std::size_t *begins, int each, int columns, int count) {
    if (plan_.mcus.top > 0 || plan_.mcus.width() < columns) {  // much is to be passed by
        for (int number = 0; number < plan_.planes; ++number) component_[number].ac->make_strides();
    }
    Lane &lane = lane_[0];
    for (int first = plan_.mcus.top * columns / each * each; first < plan_.mcus.bottom * columns; first += each) {
        const int last = std::min(first + each, count), needed = needed_end(first, last, columns);
        if (needed == first) continue;
        begin_segment(lane.bits, lane.reader, lane.predicted, data, begins + first / each);
        if (!read_segment(first, needed, columns)) return false;
        if (!is_right(lane.reader, lane.bits, needed == last, last == count)) return false;
    }
    return true;
}

// Where, of the MCUs of a segment from first to last, those that are needed end; first when there are none.
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

// Decodes MCUs of as many rows as there are lanes.
template <int Lanes>
BUSHEL_WIDE bool ScanDecoder::read_mcus(int row, int first, int last) {
    BitReader reader[Lanes];
    for (int i = 0; i < Lanes; ++i) reader[i] = lane_[i].reader;
    for (int mcu = first; mcu < last; ++mcu) {
        Block *behind = blocks_;
        for (int number = 0; number < plan_.planes; ++number) {
            const int across = plane_[number].plan.across, down = plane_[number].plan.down;
            for (int y = 0; y < down; ++y) {
                int line[Lanes];
                for (int i = 0; i < Lanes; ++i) line[i] = (row + i) * down + y;
                for (int x = 0; x < across; ++x) {
                    if (!read_blocks<Lanes>(reader, number, line, mcu * across + x, behind)) return false;
                }
            }
        }
        for (int i = 0; i < Lanes; ++i) {
            if (reader[i].next > lane_[i].bits.end() + sizeof(std::uint64_t)) return false;
            if (!is_possible(lane_[i].predicted)) return false;
        }
        if (!transform(behind)) return false;
    }
    for (int i = 0; i < Lanes; ++i) lane_[i].reader = reader[i];
    return true;
}

template <int Lanes>
BUSHEL_INLINE bool ScanDecoder::read_blocks(BitReader (&reader)[Lanes], int number, const int (&line)[Lanes], int column,
                                            Block *&behind) {
    const HuffmanTable &dc = *component_[number].dc, &ac = *component_[number].ac;
    const Plane &plane = plane_[number];
    bool needed[Lanes];
    for (int i = 0; i < Lanes; ++i) {
        if (!take_dc(reader[i], dc, lane_[i].predicted[number])) return false;
        needed[i] = is_inside(plane.plan.blocks, column, line[i]);
        if (!needed[i]) continue;
        behind[i].coefficients[0] = static_cast<std::int16_t>(lane_[i].predicted[number]);
        behind[i].component = number;
        behind[i].out = plane.block(column, line[i]);
    }
    if constexpr (Lanes == 2) {
        if (needed[0] && needed[1]) {
            take_two_ac(reader[0], reader[1], ac, behind[0].coefficients, behind[1].coefficients, behind[0].count,
                        behind[1].count);
            const bool good = behind[0].count != bad_code && behind[1].count != bad_code;
            behind += 2;
            return good;
        }
    }
    for (int i = 0; i < Lanes; ++i) {
        if (!needed[i]) {
            if (!skip_ac(reader[i], ac)) return false;
            continue;
        }
        if (i > 0 && !needed[0]) std::swap(behind[0], behind[i]);
        behind->count = take_ac(reader[i], ac, behind->coefficients);
        if (behind->count == bad_code) return false;
        ++behind;
    }
    return true;
}

template <bool Strides>
BUSHEL_WIDE bool ScanDecoder::skip_mcus(Lane &lane, int count) {
    BitReader reader = lane.reader;
    const std::uint8_t *const end = lane.bits.end() + sizeof(std::uint64_t);
    for (int mcu = 0; mcu < count; ++mcu) {
        for (int number = 0; number < plan_.planes; ++number) {
            const HuffmanTable &dc = *component_[number].dc, &ac = *component_[number].ac;
            for (int blocks = plan_.plane[number].across * plan_.plane[number].down; blocks > 0; --blocks) {
                if (!take_dc(reader, dc, lane.predicted[number])) return false;
                if (!(Strides ? stride_ac(reader, ac) : skip_ac(reader, ac))) return false;
            }
        }
        if (reader.next > end || !is_possible(lane.predicted)) return false;
    }
    lane.reader = reader;
    return true;
}

// Transforms what was decoded of an MCU. Not block by block: what was just written in small pieces can only after a
// while be read in large ones.
bool ScanDecoder::transform(Block *behind) {
    bool good = true;
    for (Block *block = blocks_; block < behind; ++block) {
        const Component &component = component_[block->component];
        good &= component.transform(block->coefficients, component.quantisers, block->count - 1, block->out,
                                    plane_[block->component].stride);
        if (block->count > 1) std::memset(block->coefficients, 0, sizeof block->coefficients);
    }
    return good;
}

}  // namespace bushel
#endif
