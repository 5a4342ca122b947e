// The scan of a baseline JPEG: decodes the blocks that a plan asks for into samples of each component.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/memory.hpp"
#include "jpeg/entropy.hpp"
#include "jpeg/header.hpp"
#include "jpeg/idct.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/seek.hpp"

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

    // Do the same from the states of a table. Return false also if a state does not fit the data. Only the bytes of
    // `seek_ranges` are read.
    bool read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan,
              const SeekTable &table);

    // Return the words of a seek table; empty if the data are damaged, or their states do not fit into words.
    std::vector<std::uint64_t> make_seek_table(const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                                               int step);

    // Valid until the next call of `read`.
    const Plane &plane(int number) const { return plane_[number]; }

private:
    struct Component {
        HuffmanTable *dc, *ac;
        InverseDct transform;
        Quantisers quantisers;
    };

    // The state of decoding one segment, or one run from a state of a seek table.
    struct Lane {
        SegmentBits bits;
        BitReader reader;
        int dc_prediction[3];

        SeekRun run;
        int at = 0;     // the next MCU
        int check = 0;  // the state that is compared next; `checked` if there is none
    };
    static constexpr int checked = -1;

    // A block after its entropy decoding and before its transformation. All coefficients are 0 outside of that time.
    struct Block {
        alignas(32) std::int16_t coefficients[64];
        int count;  // of coefficients, in zigzag order
        int component;
        std::uint8_t *out;
    };

    static constexpr int max_lanes = 2, max_blocks = 6;  // blocks of an MCU

    bool set_up(const JpegHeader &header);
    bool set_up_tables(const JpegHeader &header);
    void set_up_planes();
    bool read_rows(const std::uint8_t *data, const std::size_t *offsets, int interval, int columns);
    bool read_segments(const std::uint8_t *data, const std::size_t *offsets, int interval, int columns, int count);
    int needed_end(int first, int last, int columns) const;
    bool read_segment(int first, int last, int columns);
    bool read_runs();
    void begin_run(Lane &lane, int row, int bottom);
    bool end_run(Lane &lane);
    bool skip_to(Lane &lane, int mcu);
    bool read_row(int row, int lanes, int distance);
    bool compare(Lane &lane);
    static std::ptrdiff_t bits_before(const Lane &lane);
    int mcu_of_state(int state) const { return state < table_.last() ? state * table_.step() : count_; }
    bool move(Lane &lane, int count);
    bool read_lanes(int lanes, int row, int first, int last, int distance);
    template <int Lanes>
    BUSHEL_VECTORS bool read_mcus(int row, int first, int last, int distance = 1);
    template <int Lanes>
    BUSHEL_VECTORS_INLINE bool read_blocks(BitReader (&reader)[Lanes], int number, const int (&row)[Lanes], int column,
                                           Block *&next);
    template <bool Strides>
    BUSHEL_VECTORS bool skip_mcus(Lane &lane, int count);
    bool transform(Block *end);

    RegionPlan plan_;
    HuffmanTable dc_[3], ac_[3];
    Component component_[3];
    Plane plane_[3];
    Buffer samples_;
    Lane lane_[max_lanes];
    Block blocks_[max_lanes * max_blocks] = {};

    // The image that is read from a seek table.
    const std::uint8_t *data_ = nullptr;
    std::size_t size_ = 0, data_offset_ = 0;
    SeekTable table_;
    int columns_ = 0, count_ = 0;  // MCUs of a row, and of the image
};

}  // namespace bushel
