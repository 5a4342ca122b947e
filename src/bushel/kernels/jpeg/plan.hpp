// The plan of a decoding by Bushel's decoders: which blocks a region needs, as libjpeg would scale and upsample it.
#pragma once
#include "common/image.hpp"
#include "jpeg/header.hpp"

namespace bushel {

// One component.
struct PlanePlan {
    int h_samp_factor = 1, v_samp_factor = 1;      // blocks of an MCU, across and down
    int side = 8;                                  // samples that a block becomes, across and down
    int width = 0, height = 0;                     // samples of the whole component
    bool half_width = false, half_height = false;  // whether it has half the columns, half the rows of the image
    bool smooth = false;                           // whether upsampling interpolates
    Region blocks;                                 // the blocks to transform; empty if the component is not needed

    // The samples that these blocks become, clipped to the image.
    Region samples() const;
};

struct RegionPlan {
    int planes = 0;
    PlanePlan plane[3];
    Region mcus;

    // The rows of pixels that can be computed from the rows of MCUs before a given one: all of those above the result.
    int rows_before(int mcu_row) const;
};

// Whether the baseline decoder takes an image: 8 bits, Huffman-coded in one sequential scan, grey or YCbCr with 4:4:4,
// 4:2:2 or 4:2:0 chroma, and a header without a cause for a warning of libjpeg.
bool is_usual_jpeg(const JpegHeader &header);

// Whether the progressive decoder may take an image: the same with progressive scans, which read_progression checks.
bool is_usual_progressive(const JpegHeader &header);

// Plan a region, in pixels at 1/scale of the image's size, of an image that is one of these.
RegionPlan plan_region(const JpegHeader &header, const Region &region, int scale, int channels);

}  // namespace bushel
