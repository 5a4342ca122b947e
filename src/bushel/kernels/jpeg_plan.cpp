#include "jpeg_plan.hpp"

#include <algorithm>

namespace bushel {

namespace {

int rounded_up(int value, int divisor) { return (value + divisor - 1) / divisor; }

// A component of fewer samples is scaled down less, as long as both of its sides allow it.
int block_side(const ScanComponent &component, const ScanComponent &most, int scale) {
    const int least = 8 / scale;
    int side = least;
    while (side < 8 && most.across * least % (component.across * side * 2) == 0 &&
           most.down * least % (component.down * side * 2) == 0) {
        side *= 2;
    }
    return side;
}

struct Interval {
    int begin, end;
};

// Samples of an axis that pixels from begin to end come from.
Interval sources(Interval pixels, bool half, bool smooth, int count) {
    if (!half) return pixels;
    if (!smooth) return {pixels.begin / 2, (pixels.end + 1) / 2};
    return {std::max((pixels.begin - 1) >> 1, 0), std::min(pixels.end / 2 + 1, count)};
}

}  // namespace

Region PlanePlan::samples() const {
    return {blocks.left * side, blocks.top * side, std::min(blocks.right * side, width),
            std::min(blocks.bottom * side, height)};
}

RegionPlan plan_region(const JpegHeader &header, const JpegTables &tables, const Region &region, int scale,
                       int channels) {
    const JpegGrid grid(header);
    const ScanComponent &most = tables.component[0];
    RegionPlan plan;
    plan.planes = tables.components;
    plan.mcus = {grid.columns, grid.rows, 0, 0};
    for (int i = 0; i < tables.components; ++i) {
        const ScanComponent &component = tables.component[i];
        PlanePlan &plane = plan.plane[i];
        plane.across = component.across, plane.down = component.down;
        if (i > 0 && channels == 1) continue;
        plane.side = block_side(component, most, scale);
        plane.width = rounded_up(header.width * component.across * plane.side, most.across * 8);
        plane.height = rounded_up(header.height * component.down * plane.side, most.down * 8);
        plane.wide = component.across * plane.side * scale < most.across * 8;
        plane.tall = component.down * plane.side * scale < most.down * 8;
        plane.smooth = scale < 8 && plane.width > 2;
        const Interval across =
            sources({region.left, region.right}, plane.wide, plane.smooth, plane.width);
        const Interval down = sources({region.top, region.bottom}, plane.tall, plane.smooth, plane.height);
        plane.blocks = {across.begin / plane.side, down.begin / plane.side, rounded_up(across.end, plane.side),
                        rounded_up(down.end, plane.side)};
        plan.mcus = {std::min(plan.mcus.left, plane.blocks.left / plane.across),
                     std::min(plan.mcus.top, plane.blocks.top / plane.down),
                     std::max(plan.mcus.right, rounded_up(plane.blocks.right, plane.across)),
                     std::max(plan.mcus.bottom, rounded_up(plane.blocks.bottom, plane.down))};
    }
    return plan;
}

}  // namespace bushel
