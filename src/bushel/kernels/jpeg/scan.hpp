// The scan of a baseline JPEG: decodes the blocks that a plan asks for into samples of each component.
#pragma once
#include "common/simd.hpp"
#ifdef BUSHEL_X86
#include <cstddef>
#include <cstdint>

#include "common/memory.hpp"
#include "jpeg/entropy.hpp"
#include "jpeg/header.hpp"
#include "jpeg/idct.hpp"
#include "jpeg/plan.hpp"

namespace bushel {

// The decoded samples of a component. 64 bytes after the last one may be read.
struct Plane {
    PlanePlan plan;
    std::uint8_t *samples = nullptr;
    std::size_t stride = 0;

    std::uint8_t *block(int column, int row) const {
        const auto side = static_cast<std::size_t>(plan.side);
        return samples + static_cast<std::size_t>(row - plan.blocks.top) * side * stride +
               static_cast<std::size_t>(column - plan.blocks.left) * side;
    }
};

class ScanDecoder {
public:
    // Decode a scan. Return false if anything is wrong with the data, and for coefficients that no image has.
    bool read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan);

    // Valid until the next call of `read`.
    const Plane &plane(int number) const { return plane_[number]; }

private:
    struct Component {
        HuffmanTable *dc, *ac;
        InverseDct transform;
        Quantisers quantisers;
    };

    // The state of decoding one segment.
    struct Lane {
        SegmentBits bits;
        BitReader reader;
        int dc_prediction[3];
    };

    // A block after its entropy decoding and before its transformation. All coefficients are 0 outside of that time.
    struct Block {
        alignas(32) std::int16_t coefficients[64];
        int count;  // of coefficients, in zigzag order
        int component;
        std::uint8_t *out;
    };

    static constexpr int max_lanes = 2, max_blocks = 6;  // blocks of an MCU

    bool set_up(const JpegHeader &header);
    bool read_rows(const std::uint8_t *data, const std::size_t *offsets, int interval, int columns);
    bool read_segments(const std::uint8_t *data, const std::size_t *offsets, int interval, int columns, int count);
    int needed_end(int first, int last, int columns) const;
    bool read_segment(int first, int last, int columns);
    template <int Lanes>
    BUSHEL_AVX2 bool read_mcus(int row, int first, int last);
    template <int Lanes>
    BUSHEL_AVX2_INLINE bool read_blocks(BitReader (&reader)[Lanes], int number, const int (&row)[Lanes], int column,
                                        Block *&next);
    template <bool Strides>
    BUSHEL_AVX2 bool skip_mcus(Lane &lane, int count);
    bool transform(Block *end);

    RegionPlan plan_;
    HuffmanTable dc_[3], ac_[3];
    Component component_[3];
    Plane plane_[3];
    Buffer samples_;
    Lane lane_[max_lanes];
    Block blocks_[max_lanes * max_blocks] = {};
};

}  // namespace bushel
#endif
