// The scan of a baseline JPEG: from its bits to the samples of each component that a plan asks for.
#pragma once
#include "jpeg_simd.hpp"
#ifdef BUSHEL_BASELINE
#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "jpeg_entropy.hpp"
#include "jpeg_huffman.hpp"
#include "jpeg_idct.hpp"
#include "jpeg_plan.hpp"
#include "jpeg_tables.hpp"

namespace bushel {

// The decoded samples of a component, of which 64 bytes behind the last may be read.
struct Plane {
    PlanePlan plan;
    std::uint8_t *samples = nullptr;
    std::size_t stride = 0;

    std::uint8_t *block(int column, int line) const {
        const auto side = static_cast<std::size_t>(plan.side);
        return samples + static_cast<std::size_t>(line - plan.blocks.top) * side * stride +
               static_cast<std::size_t>(column - plan.blocks.left) * side;
    }
};

class ScanDecoder {
public:
    // False for data with anything wrong, and for coefficients that no image has.
    bool read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const JpegTables &tables,
              const RegionPlan &plan);

    // Of the last scan, until the next one.
    const Plane &plane(int number) const { return plane_[number]; }

private:
    struct Component {
        HuffmanTable *dc, *ac;
        InverseDct transform;
        Quantisers quantisers;
    };

    // A segment while it is read.
    struct Lane {
        SegmentBits bits;
        BitReader reader;
        int predicted[3];
    };

    // A block between its decoding and its transformation. All its coefficients are 0 before and after.
    struct Block {
        alignas(32) std::int16_t coefficients[64];
        int count;  // of coefficients, in zigzag order
        int component;
        std::uint8_t *out;
    };

    static constexpr int most_lanes = 2, most_blocks = 6;  // blocks of an MCU

    bool prepare(const JpegTables &tables);
    bool read_rows(const std::uint8_t *data, const std::size_t *begins, int each, int columns);
    bool read_segments(const std::uint8_t *data, const std::size_t *begins, int each, int columns, int count);
    int needed_end(int first, int last, int columns) const;
    bool read_segment(int first, int last, int columns);
    template <int Lanes>
    BUSHEL_WIDE bool read_mcus(int row, int first, int last);
    template <int Lanes>
    BUSHEL_INLINE bool read_blocks(BitReader (&reader)[Lanes], int number, const int (&line)[Lanes], int column, Block *&behind);
    template <bool Strides>
    BUSHEL_WIDE bool skip_mcus(Lane &lane, int count);
    bool transform(Block *behind);

    RegionPlan plan_;
    HuffmanTable dc_[3], ac_[3];
    Component component_[3];
    Plane plane_[3];
    Buffer samples_;
    Lane lane_[most_lanes];
    Block blocks_[most_lanes * most_blocks] = {};
};

}  // namespace bushel
#endif
