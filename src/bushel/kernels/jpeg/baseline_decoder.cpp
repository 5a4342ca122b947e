#include "jpeg/baseline_decoder.hpp"

#include "common/simd.hpp"

#ifndef BUSHEL_X86

namespace bushel {

struct BaselineDecoder::State {};

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

#include "jpeg/colour.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/scan.hpp"

namespace bushel {

namespace {

// A row of samples; for a row outside the plane, the nearest one.
const std::uint8_t *row_of(const Plane &plane, int number) {
    const Region available = plane.plan.samples();
    const int inside = std::min(std::max(number, available.top), available.bottom - 1);
    return plane.samples + static_cast<std::size_t>(inside - available.top) * plane.stride;
}

// Return a component's samples for row y of the image, from column region.left on. 32 bytes after them may be read.
const std::uint8_t *upsampled_row(const Plane &plane, const Region &region, int y, Upsampler &upsampler) {
    const PlanePlan &plan = plane.plan;
    const Region available = plan.samples();
    const std::uint8_t *row = row_of(plane, plan.half_height ? y / 2 : y);
    if (!plan.half_width) return row + (region.left - available.left);
    const int first = region.left / 2 - available.left, last = (region.right + 1) / 2 - available.left;
    const std::uint8_t *upsampled = nullptr;
    if (!plan.smooth) {
        upsampled = upsampler.repeat(row, first, last);
    } else if (plan.half_height) {
        const std::uint8_t *far = row_of(plane, y % 2 ? y / 2 + 1 : y / 2 - 1);
        upsampled = upsampler.smooth(row, far, available.width(), first, last);
    } else {
        upsampled = upsampler.smooth(row, available.width(), first, last);
    }
    return upsampled + region.left % 2;
}

}  // namespace

struct BaselineDecoder::State {
    ScanDecoder scan;
    Upsampler cb, cr;
};

BaselineDecoder::BaselineDecoder() = default;
BaselineDecoder::~BaselineDecoder() = default;

bool BaselineDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const Region &region,
                           int scale, int channels, std::uint8_t *out, std::size_t stride) {
    static const bool is_supported = supports(Simd::avx2);
    if (!is_supported || !is_usual_jpeg(header)) return false;
    if (!state_) state_ = std::make_unique<State>();
    const RegionPlan plan = plan_region(header, region, scale, channels);
    ScanDecoder &scan = state_->scan;
    if (!scan.read(data, size, header, plan)) return false;
    const auto width = static_cast<std::size_t>(region.width());
    for (int y = region.top; y < region.bottom; ++y, out += stride) {
        const std::uint8_t *luma = upsampled_row(scan.plane(0), region, y, state_->cb);
        if (channels == 1) {
            std::memcpy(out, luma, width);
        } else if (plan.planes == 1) {
            grey_to_rgb(luma, width, out);
        } else {
            const std::uint8_t *cb = upsampled_row(scan.plane(1), region, y, state_->cb);
            const std::uint8_t *cr = upsampled_row(scan.plane(2), region, y, state_->cr);
            ycbcr_to_rgb(luma, cb, cr, width, out);
        }
    }
    return true;
}

}  // namespace bushel
#endif
