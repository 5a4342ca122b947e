// Antialiased bilinear resizing as Pillow does it (Image.resize with BILINEAR): equal to it byte for byte.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slot.hpp"

namespace bushel {

// Rows of interleaved 8-bit pixels that belong to someone else.
struct Pixels {
    const std::uint8_t *data = nullptr;
    std::ptrdiff_t stride = 0;  // bytes from one row to the next
    int width = 0, height = 0;
    int channels = 0;
};

// How the output pixels of one axis are weighted sums of input pixels.
struct Axis {
    int available = 0;          // input pixels there are; those outside are never asked for
    double begin = 0, end = 0;  // the interval of the input that becomes `size` pixels
    int size = 0;
    int first = 0, count = 0;  // the pixels of the output that are wanted
    bool flipped = false;      // the wanted pixels in reverse order

    bool is_identity() const { return begin == 0 && end == available && size == available; }
};

class Weights {
public:
    static constexpr int bits = 22;  // fixed point: 8-bit sums of them fit 32 bits with a sign

    explicit Weights(const Axis &axis);

    // Input pixels from low to high (exclusive) are what all outputs together need.
    int low() const { return low_; }
    int high() const { return high_; }
    int count() const { return static_cast<int>(start_.size()); }
    int start(int output) const { return start_[static_cast<std::size_t>(output)]; }
    int taps(int output) const { return taps_[static_cast<std::size_t>(output)]; }
    const std::int32_t *of(int output) const { return weight_.data() + static_cast<std::size_t>(output) * width_; }

    // Whether output i is input low() + i as it is.
    bool is_copy() const { return copy_; }

private:
    std::vector<int> start_, taps_;
    std::vector<std::int32_t> weight_;
    std::size_t width_ = 0;  // weights stored per output
    int low_ = 0, high_ = 0;
    bool copy_ = false;
};

// Resizes into a slot. `source` holds exactly the pixels from low() to high() of both axes.
void resize(const Pixels &source, const Weights &across, const Weights &down, const Slot &slot);

}  // namespace bushel
