#include "jpeg/plan.hpp"

#include <algorithm>
#include <limits>

#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

struct SamplingFactors {
    int h, v;
};

// A single component is coded block by block, with any factors.
SamplingFactors sampling_of(const JpegHeader &header, int i) {
    if (header.components == 1) return {1, 1};
    return {header.component[i].h_samp_factor, header.component[i].v_samp_factor};
}

// A component with fewer samples is scaled down less, as far as both of its sides allow it.
int block_side(SamplingFactors factors, SamplingFactors luma, int scale) {
    const int smallest = 8 / scale;
    int side = smallest;
    while (side < 8 && luma.h * smallest % (factors.h * side * 2) == 0 &&
           luma.v * smallest % (factors.v * side * 2) == 0) {
        side *= 2;
    }
    return side;
}

struct Interval {
    int begin, end;
};

// The samples of an axis that the given pixels are computed from.
Interval source_samples(Interval pixels, bool half, bool smooth, int count) {
    if (!half) return pixels;
    if (!smooth) return {pixels.begin / 2, (pixels.end + 1) / 2};
    return {std::max((pixels.begin - 1) >> 1, 0), std::min(pixels.end / 2 + 1, count)};
}

// Grey, or YCbCr with 4:4:4, 4:2:2 or 4:2:0 chroma.
bool has_usual_components(const JpegHeader &header) {
    if (header.components == 1) return true;
    if (header.components != 3 || !header.is_ycbcr()) return false;
    const JpegComponent &y = header.component[0], &cb = header.component[1], &cr = header.component[2];
    return y.h_samp_factor <= 2 && y.v_samp_factor <= y.h_samp_factor && cb.h_samp_factor == 1 &&
           cb.v_samp_factor == 1 && cr.h_samp_factor == 1 && cr.v_samp_factor == 1;
}

}  // namespace

Region PlanePlan::samples() const {
    return {blocks.left * side, blocks.top * side, std::min(blocks.right * side, width),
            std::min(blocks.bottom * side, height)};
}

int RegionPlan::rows_before(int mcu_row) const {
    int rows = std::numeric_limits<int>::max();
    if (mcu_row >= mcus.bottom) return rows;
    for (int i = 0; i < planes; ++i) {
        if (plane[i].blocks.is_empty()) continue;
        const int samples = mcu_row * plane[i].v_samp_factor * plane[i].side;
        rows = std::min(rows, !plane[i].half_height ? samples : 2 * samples - plane[i].smooth);
    }
    return rows;
}

bool is_usual_jpeg(const JpegHeader &header) {
    return header.is_regular && header.is_sequential() && has_usual_components(header);
}

bool is_usual_progressive(const JpegHeader &header) {
    return header.is_regular && header.sof == SOF2 && has_usual_components(header);
}

RegionPlan plan_region(const JpegHeader &header, const Region &region, int scale, int channels) {
    const JpegGrid grid(header);
    const SamplingFactors luma = sampling_of(header, 0);
    RegionPlan plan;
    plan.planes = header.components;
    plan.mcus = {grid.columns, grid.rows, 0, 0};
    for (int i = 0; i < plan.planes; ++i) {
        const SamplingFactors factors = sampling_of(header, i);
        PlanePlan &plane = plan.plane[i];
        plane.h_samp_factor = factors.h, plane.v_samp_factor = factors.v;
        if (i > 0 && channels == 1) continue;
        plane.side = block_side(factors, luma, scale);
        plane.width = divide_up(header.width * factors.h * plane.side, luma.h * 8);
        plane.height = divide_up(header.height * factors.v * plane.side, luma.v * 8);
        plane.half_width = factors.h * plane.side * scale < luma.h * 8;
        plane.half_height = factors.v * plane.side * scale < luma.v * 8;
        plane.smooth = scale < 8 && plane.width > 2;
        const Interval columns =
            source_samples({region.left, region.right}, plane.half_width, plane.smooth, plane.width);
        const Interval rows =
            source_samples({region.top, region.bottom}, plane.half_height, plane.smooth, plane.height);
        plane.blocks = {columns.begin / plane.side, rows.begin / plane.side, divide_up(columns.end, plane.side),
                        divide_up(rows.end, plane.side)};
        plan.mcus = {std::min(plan.mcus.left, plane.blocks.left / factors.h),
                     std::min(plan.mcus.top, plane.blocks.top / factors.v),
                     std::max(plan.mcus.right, divide_up(plane.blocks.right, factors.h)),
                     std::max(plan.mcus.bottom, divide_up(plane.blocks.bottom, factors.v))};
    }
    return plan;
}

}  // namespace bushel
