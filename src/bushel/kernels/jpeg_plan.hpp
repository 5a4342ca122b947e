// Which blocks of a baseline JPEG a region needs, as libjpeg would scale and upsample it.
#pragma once
#include "jpeg_header.hpp"
#include "jpeg_tables.hpp"
#include "jpeg_tiles.hpp"
#include "region.hpp"

namespace bushel {

// One component.
struct PlanePlan {
    int across = 1, down = 1;         // blocks in an MCU
    int side = 8;                     // samples that a block becomes, across and down
    int width = 0, height = 0;        // samples of the whole component
    bool wide = false, tall = false;  // whether it has half the columns, half the rows of the image
    bool smooth = false;              // whether the missing ones are interpolated
    Region blocks;                    // those to be transformed; none: the component does not matter

    // What these become, without what lies beyond the image.
    Region samples() const;
};

struct RegionPlan {
    int planes = 0;
    PlanePlan plane[3];
    Region mcus;
};

RegionPlan plan_region(const JpegHeader &header, const JpegTables &tables, const Region &region, int scale,
                       int channels);

}  // namespace bushel
