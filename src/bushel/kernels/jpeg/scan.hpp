// The scan of a baseline JPEG: decodes the blocks that a plan asks for into samples of each component.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jpeg/entropy.hpp"
#include "jpeg/header.hpp"
#include "jpeg/idct.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/planes.hpp"
#include "jpeg/seek.hpp"

namespace bushel {

// Decodes a few rows of MCUs at a time, from the top.
class ScanDecoder {
public:
    // Begin a scan. Return false if anything is wrong with its tables or restart markers.
    bool begin(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan);

    // Do the same, to decode from the states of a table. Return false also if it does not fit the header. Only the
    // bytes of `seek_ranges` are read.
    bool begin(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan,
               const SeekTable &table);

    // Decode further rows of MCUs. Return false if anything is wrong with the data, for coefficients that no image has,
    // and if a state does not fit the data. Then another scan has to begin.
    bool read();

    // The row of MCUs that `read` decodes next; after the last one, the end of the planned rows.
    int next_row() const { return next_row_; }

    // The samples that the last `read` decoded, and the samples of the row of MCUs before them.
    Planes &planes() { return planes_; }

    // Return the words of a seek table with states `pixels` apart, or more; empty if it does not fit, if the
    // data are damaged, or if a state does not fit into a word.
    std::vector<std::uint64_t> make_seek_table(const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                                               int pixels);

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
        int at = 0;  // the next MCU

        SeekRun run;
        int check = 0;  // the state that is compared next; `checked` after the last one
    };
    static constexpr int checked = -1, none = -1;

    // A block after its entropy decoding and before its transformation. All coefficients are 0 outside of that time.
    struct Block {
        alignas(32) std::int16_t coefficients[64];
        int count;  // of coefficients, in zigzag order
        int component;
        std::uint8_t *out;
    };

    static constexpr int max_lanes = 2, max_blocks = 6;  // blocks of an MCU

    bool set_up(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const RegionPlan &plan);
    bool set_up_tables(const JpegHeader &header);
    bool read_tiles();
    bool read_segments();
    bool read_runs();
    void begin_segment(Lane &lane, int number);
    bool end_segment(Lane &lane);
    void begin_run(Lane &lane, int row, int bottom);
    bool end_run(Lane &lane);
    bool skip_to(Lane &lane, int mcu);
    bool skip_both(const int (&mcus)[max_lanes]);
    bool read_row(int row, int lanes, int distance);
    bool compare(Lane &lane);
    int next_stop(const Lane &lane, int mcu) const {
        return lane.check == checked ? mcu : std::min(mcu, mcu_of_state(lane.check));
    }
    int mcu_of_state(int state) const { return state < states_.last() ? state * states_.step() : count_; }
    bool move(Lane *lanes, int number, int mcus);
    bool read_lanes(int lanes, int row, int first, int last, int distance);
    template <int Lanes>
    BUSHEL_VECTORS bool read_mcus(int row, int first, int last, int distance = 1);
    template <int Lanes>
    struct BlockRow;
    template <int Lanes>
    int block_rows(int row, int distance, BlockRow<Lanes> *rows) const;
    template <int Lanes>
    BUSHEL_VECTORS_INLINE bool read_blocks(BitReader (&reader)[Lanes], const BlockRow<Lanes> &blocks, int mcu,
                                           Block *&next);
    template <bool Strides, int Lanes>
    BUSHEL_VECTORS bool skip_mcus(Lane *lanes, int count);
    bool transform(Block *end);

    RegionPlan plan_;
    HuffmanTable dc_[3], ac_[3];
    Component component_[3];
    Planes planes_;
    Lane lane_[max_lanes];
    Block blocks_[max_lanes * max_blocks] = {};

    // The scan that is read.
    enum class Way { tiles, segments, runs } way_ = Way::segments;
    const std::uint8_t *data_ = nullptr;
    std::size_t size_ = 0, data_offset_ = 0;
    int columns_ = 0, count_ = 0;  // MCUs of a row, and of the image
    int next_row_ = 0;
    std::vector<std::size_t> offsets_;  // of the segments
    int interval_ = 0, segment_ = 0;    // MCUs of a segment, and the one that is read
    SeekStates states_;
};

}  // namespace bushel
