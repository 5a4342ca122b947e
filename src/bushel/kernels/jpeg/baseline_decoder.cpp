#include "jpeg/baseline_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "common/vectors.hpp"
#include "jpeg/colour.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/scan.hpp"

namespace bushel {

namespace {

// A row of samples; for a row outside the plane, the nearest one.
const std::uint8_t *row_of(const Plane &plane, int number) {
    const Region available = plane.plan.samples();
    return plane.row(std::min(std::max(number, available.top), available.bottom - 1));
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

    bool read(const RegionPlan &plan, const Region &region, int channels, const ImageRows &out);
    void write(const RegionPlan &plan, const Region &region, int channels, std::uint8_t *out, std::size_t stride);
};

// Decode a scan that has begun: a few rows of MCUs, their pixels, the next rows. So the samples stay in a fast cache.
bool BaselineDecoder::State::read(const RegionPlan &plan, const Region &region, int channels, const ImageRows &out) {
    for (Region rows = region; rows.top < region.bottom; rows.top = rows.bottom) {
        if (!scan.read()) return false;
        rows.bottom = std::max(rows.top, std::min(plan.rows_before(scan.next_row()), region.bottom));
        const int first = rows.top - region.top;
        std::uint8_t *const pixels = out.begin(first, rows.height());
        write(plan, rows, channels, pixels, out.stride());
        out.finish(pixels, first, rows.height());
    }
    return true;
}

// Write the pixels of rows whose blocks have been decoded.
void BaselineDecoder::State::write(const RegionPlan &plan, const Region &region, int channels, std::uint8_t *out,
                                   std::size_t stride) {
    const auto width = static_cast<std::size_t>(region.width());
    for (int y = region.top; y < region.bottom; ++y, out += stride) {
        const std::uint8_t *luma = upsampled_row(scan.plane(0), region, y, cb);
        if (channels == 1) {
            std::memcpy(out, luma, width);
        } else if (plan.planes == 1) {
            grey_to_rgb(luma, width, out);
        } else {
            const std::uint8_t *blue = upsampled_row(scan.plane(1), region, y, cb);
            const std::uint8_t *red = upsampled_row(scan.plane(2), region, y, cr);
            ycbcr_to_rgb(luma, blue, red, width, out);
        }
    }
}

namespace {

// Whether this processor, and the decoder, can read an image.
bool can_read(const JpegHeader &header) {
    static const bool is_supported = supports(vectors_need);
    return is_supported && is_usual_jpeg(header);
}

}  // namespace

BaselineDecoder::BaselineDecoder() = default;
BaselineDecoder::~BaselineDecoder() = default;

bool BaselineDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const Region &region,
                           int scale, int channels, const ImageRows &out) {
    if (!can_read(header)) return false;
    if (!state_) state_ = std::make_unique<State>();
    const RegionPlan plan = plan_region(header, region, scale, channels);
    return state_->scan.begin(data, size, header, plan) && state_->read(plan, region, channels, out);
}

bool BaselineDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const SeekTable &table,
                           const Region &region, int scale, int channels, const ImageRows &out) {
    if (!can_read(header)) return false;
    if (!state_) state_ = std::make_unique<State>();
    const RegionPlan plan = plan_region(header, region, scale, channels);
    return state_->scan.begin(data, size, header, plan, table) && state_->read(plan, region, channels, out);
}

std::vector<std::uint64_t> BaselineDecoder::make_seek_table(const std::uint8_t *data, std::size_t size,
                                                            const JpegHeader &header, int pixels) {
    if (!can_read(header) || !is_seekable(header)) return {};
    if (!state_) state_ = std::make_unique<State>();
    return state_->scan.make_seek_table(data, size, header, pixels);
}

}  // namespace bushel
