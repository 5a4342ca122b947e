#include "jpeg/planes.hpp"

#include <cstring>

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

void Planes::set_up(const RegionPlan &plan, int rows) {
    constexpr int rows_kept = 1;
    constexpr std::size_t padding = 64;
    int room = 1;
    while (room < std::min(rows + rows_kept, plan.mcus.height())) room *= 2;
    count_ = plan.planes;
    std::size_t bytes[3] = {}, total = 0;
    for (int i = 0; i < count_; ++i) {
        Plane &plane = plane_[i];
        plane.plan = plan.plane[i];
        plane.stride = static_cast<std::size_t>(plane.plan.blocks.width() * plane.plan.side);
        plane.mask = static_cast<unsigned>(room * plane.plan.v_samp_factor * plane.plan.side - 1);
        bytes[i] = plane.stride * (plane.mask + 1) + padding;
        total += bytes[i];
    }
    std::uint8_t *memory = samples_.bytes(total);
    for (int i = 0; i < count_; memory += bytes[i++]) plane_[i].samples = memory;
}

void Planes::write(const Region &rows, int channels, std::uint8_t *out, std::size_t stride) {
    const auto width = static_cast<std::size_t>(rows.width());
    for (int y = rows.top; y < rows.bottom; ++y, out += stride) {
        const std::uint8_t *luma = upsampled_row(plane_[0], rows, y, cb_);
        if (channels == 1) {
            std::memcpy(out, luma, width);
        } else if (count_ == 1) {
            grey_to_rgb(luma, width, out);
        } else {
            const std::uint8_t *blue = upsampled_row(plane_[1], rows, y, cb_);
            const std::uint8_t *red = upsampled_row(plane_[2], rows, y, cr_);
            ycbcr_to_rgb(luma, blue, red, width, out);
        }
    }
}

}  // namespace bushel
