// The decoded samples of an image's components, and their conversion to pixels.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/memory.hpp"
#include "jpeg/colour.hpp"
#include "jpeg/orientation.hpp"
#include "jpeg/plan.hpp"

namespace bushel {

// The samples of a component: the rows that were decoded last, in a ring. 64 bytes after the last one may be read.
struct Plane {
    PlanePlan plan;
    std::uint8_t *samples = nullptr;
    std::size_t stride = 0;
    unsigned mask = 0;  // rows of samples in the ring, less one; they are a power of two

    std::uint8_t *row(int number) const { return samples + (static_cast<unsigned>(number) & mask) * stride; }
    std::uint8_t *block(int column, int block_row) const {
        return row(block_row * plan.side) + static_cast<std::size_t>((column - plan.blocks.left) * plan.side);
    }
};

class Planes {
public:
    // Make room for as many rows of MCUs as are decoded at once, and for one before them.
    void set_up(const RegionPlan &plan, int rows);

    const Plane &operator[](int number) const { return plane_[number]; }

    // Write rows of pixels, all of whose samples have been decoded, in 3 channels or in 1 (the luma).
    void write(const Region &rows, int channels, std::uint8_t *out, std::size_t stride);

private:
    int count_ = 0;
    Plane plane_[3];
    Buffer samples_;
    Upsampler cb_, cr_;
};

// Decode a region with a decoder that has begun: a few rows of MCUs, their pixels, the next rows. So the samples stay
// in a fast cache. Return false if the decoder cannot go on.
template <typename Decoder>
bool read_pixels(Decoder &decoder, const RegionPlan &plan, const Region &region, int channels, const ImageRows &out) {
    for (Region rows = region; rows.top < region.bottom; rows.top = rows.bottom) {
        if (!decoder.read()) return false;
        rows.bottom = std::max(rows.top, std::min(plan.rows_before(decoder.next_row()), region.bottom));
        const int first = rows.top - region.top;
        std::uint8_t *const pixels = out.begin(first, rows.height());
        decoder.planes().write(rows, channels, pixels, out.stride());
        out.finish(pixels, first, rows.height());
    }
    return true;
}

}  // namespace bushel
