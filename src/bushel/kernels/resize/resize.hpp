// Antialiased bilinear resizing, byte for byte as Pillow does it (Image.resize with BILINEAR).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/image.hpp"
#include "resize/batch_output.hpp"

namespace bushel {

// Resizing of one axis.
struct Axis {
    int available = 0;          // input pixels
    double begin = 0, end = 0;  // the interval of the input that becomes `size` output pixels
    int size = 0;
    int first = 0, count = 0;  // the wanted output pixels
    bool flipped = false;      // write the wanted pixels in reverse order

    bool is_identity() const { return begin == 0 && end == available && size == available; }
};

// The output pixels of an axis as weighted sums of input pixels.
class Weights {
public:
    static constexpr int bits = 22;  // fixed point: weighted sums of 8-bit levels fit 32 bits with a sign

    explicit Weights(const Axis &axis);

    // The input pixels that all outputs together need; high is exclusive.
    int low() const { return low_; }
    int high() const { return high_; }
    int count() const { return static_cast<int>(start_.size()); }
    int start(int output) const { return start_[static_cast<std::size_t>(output)]; }
    int taps(int output) const { return taps_[static_cast<std::size_t>(output)]; }
    const std::int32_t *of(int output) const { return weight_.data() + static_cast<std::size_t>(output) * width_; }

    // Whether output i is input low() + i, unchanged.
    bool is_copy() const { return copy_; }

private:
    std::vector<int> start_, taps_;
    std::vector<std::int32_t> weight_;
    std::size_t width_ = 0;  // weights stored per output
    int low_ = 0, high_ = 0;
    bool copy_ = false;
};

// Resize an image. `source` holds exactly the pixels from low() to high() of both axes.
void resize(const Pixels &source, const Weights &columns, const Weights &rows, const OutputImage &out);

}  // namespace bushel
