#include "jpeg_baseline.hpp"

#include "jpeg_simd.hpp"

#ifndef BUSHEL_BASELINE

namespace bushel {

struct BaselineDecoder::Work {};

BaselineDecoder::BaselineDecoder() = default;
BaselineDecoder::~BaselineDecoder() = default;

bool BaselineDecoder::read(const std::uint8_t *, std::size_t, const JpegHeader &, const Region &, int, int,
                           std::uint8_t *, std::size_t) {
    return false;
}

}  // namespace bushel

#else
#include <algorithm>
#include <cstring>

#include "jpeg_colour.hpp"
#include "jpeg_plan.hpp"
#include "jpeg_scan.hpp"
#include "jpeg_tables.hpp"
#include "jpeg_upsample.hpp"

namespace bushel {

namespace {

// A row of samples; of one outside, the nearest inside.
const std::uint8_t *row_of(const Plane &plane, int number) {
    const Region available = plane.plan.samples();
    const int inside = std::min(std::max(number, available.top), available.bottom - 1);
    return plane.samples + static_cast<std::size_t>(inside - available.top) * plane.stride;
}

// A component's samples for a row of the image, from column region.left on; 32 bytes beyond may be read.
const std::uint8_t *full_row(const Plane &plane, const Region &region, int y, Upsampler &upsampler) {
    const PlanePlan &plan = plane.plan;
    const Region available = plan.samples();
    const std::uint8_t *row = row_of(plane, plan.tall ? y / 2 : y);
    if (!plan.wide) return row + (region.left - available.left);
    const int first = region.left / 2 - available.left, last = (region.right + 1) / 2 - available.left;
    const std::uint8_t *twice = nullptr;
    if (!plan.smooth) {
        twice = upsampler.repeat(row, first, last);
    } else if (plan.tall) {
        const std::uint8_t *other = row_of(plane, y % 2 ? y / 2 + 1 : y / 2 - 1);
        twice = upsampler.smooth(row, other, available.width(), first, last);
    } else {
        twice = upsampler.smooth(row, available.width(), first, last);
    }
    return twice + region.left % 2;
}

}  // namespace

struct BaselineDecoder::Work {
    JpegTables tables;
    ScanDecoder scan;
    Upsampler blue, red;
};

BaselineDecoder::BaselineDecoder() = default;
BaselineDecoder::~BaselineDecoder() = default;

bool BaselineDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const Region &region,
                           int scale, int channels, std::uint8_t *out, std::size_t stride) {
    if (!has_wide()) return false;
    if (!work_) work_ = std::make_unique<Work>();
    if (!read_tables(data, header, work_->tables)) return false;
    const RegionPlan plan = plan_region(header, work_->tables, region, scale, channels);
    ScanDecoder &scan = work_->scan;
    if (!scan.read(data, size, header, work_->tables, plan)) return false;
    const auto width = static_cast<std::size_t>(region.width());
    for (int y = region.top; y < region.bottom; ++y, out += stride) {
        const std::uint8_t *luma = full_row(scan.plane(0), region, y, work_->blue);
        if (channels == 1) {
            std::memcpy(out, luma, width);
        } else if (plan.planes == 1) {
            grey_to_rgb(luma, width, out);
        } else {
            ycbcr_to_rgb(luma, full_row(scan.plane(1), region, y, work_->blue),
                         full_row(scan.plane(2), region, y, work_->red), width, out);
        }
    }
    return true;
}

}  // namespace bushel
#endif
