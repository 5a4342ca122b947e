// Bushel's own decoder of progressive JPEGs. Each of their scans has some bits of all blocks. It reads the scans down
// to the last block that a region needs, keeps and transforms the coefficients of the blocks that the region needs, and
// leaves out scans that the pixels do not depend on. Unusual JPEGs, and damaged ones, are left to libjpeg
// (libjpeg_decoder.hpp). The pixels of both decoders are equal.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/image.hpp"
#include "common/memory.hpp"
#include "jpeg/entropy.hpp"
#include "jpeg/header.hpp"
#include "jpeg/idct.hpp"
#include "jpeg/orientation.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/planes.hpp"
#include "jpeg/progression.hpp"

namespace bushel {

class ProgressiveDecoder {
public:
    // Decode a region, as BaselineDecoder::read does. It takes 128 bytes for each block of the region, and 8 for each
    // block above and beside it; libjpeg takes 128 for each block of the image. More than 32 MiB are freed before it
    // returns: libjpeg may have to decode the image then, and a thread may never decode another progressive one.
    bool read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const Region &region, int scale,
              int channels, const ImageRows &out);

    // For read_pixels: transform the next row of MCUs.
    bool read();
    int next_row() const { return next_row_; }
    Planes &planes() { return planes_; }

private:
    struct Component {
        PlanePlan plan;
        int columns, rows;           // blocks; only rows from the top down to the last needed one
        std::int16_t *coefficients;  // of the needed blocks, in natural order
        std::uint64_t *nonzero;      // bits of all blocks of these rows
        InverseDct transform;
        Quantisers quantisers;

        std::int16_t *block(int column, int row) const {
            const std::ptrdiff_t number = (row - plan.blocks.top) * plan.blocks.width() + column - plan.blocks.left;
            return coefficients + 64 * number;
        }
        bool needs(int column, int row) const {
            return column >= plan.blocks.left && column < plan.blocks.right && row >= plan.blocks.top &&
                   row < plan.blocks.bottom;
        }
    };

    void set_up(const JpegHeader &header);
    bool read_scans(const std::vector<ProgressiveScan> &scans);
    bool read_scan(const ProgressiveScan &scan);
    bool needs(const ProgressiveScan &scan) const;
    bool set_up_tables(const ProgressiveScan &scan);
    int needed_rows(const ProgressiveScan &scan) const;
    bool read_mcus(const ProgressiveScan &scan, int row, int first, int last);
    template <bool Refines>
    BUSHEL_VECTORS bool read_dc(const ProgressiveScan &scan, int row, int first, int last);
    template <bool Refines>
    BUSHEL_VECTORS bool read_ac(const ProgressiveScan &scan, int row, int first, int last);

    RegionPlan plan_;
    Component component_[3];
    Buffer coefficients_, nonzero_;
    Planes planes_;
    int next_row_ = 0;

    // The scan that is read.
    const std::uint8_t *data_ = nullptr;
    HuffmanTable dc_[3], ac_;
    SegmentBits bits_;
    BitReader reader_;
    int dc_prediction_[3] = {};
    int eob_run_ = 0;
};

}  // namespace bushel
