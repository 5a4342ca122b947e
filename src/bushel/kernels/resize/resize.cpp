#include "resize/resize.hpp"

#include <algorithm>
#include <cmath>

#include "common/memory.hpp"
#include "resize/weighted_sums.hpp"

namespace bushel {

// The triangle filter. Its support is the distance of two output pixels in the input, but at least one input pixel.
// Weights are normalised, then rounded to fixed point.
Weights::Weights(const Axis &axis) {
    const double scale = (axis.end - axis.begin) / axis.size;
    const double support = std::max(scale, 1.0);
    const double slope = 1.0 / support;
    const auto count = static_cast<std::size_t>(axis.count);
    width_ = static_cast<std::size_t>(std::min(std::ceil(support) * 2 + 1, static_cast<double>(axis.available)));
    start_.resize(count);
    taps_.resize(count);
    weight_.resize(count * width_);
    std::vector<double> exact(width_);
    low_ = axis.available;
    for (std::size_t output = 0; output < count; ++output) {
        const int position = axis.first + static_cast<int>(axis.flipped ? count - 1 - output : output);
        const double centre = axis.begin + (position + 0.5) * scale;
        int start = std::max(0, static_cast<int>(centre - support + 0.5));
        int taps = std::min(axis.available, static_cast<int>(centre + support + 0.5)) - start;
        double total = 0;
        for (int tap = 0; tap < taps; ++tap) {
            const double distance = std::abs((tap + start - centre + 0.5) * slope);
            total += exact[static_cast<std::size_t>(tap)] = std::max(0.0, 1.0 - distance);
        }
        std::int32_t *weight = weight_.data() + output * width_;
        for (int tap = 0; tap < taps; ++tap) {
            weight[tap] = static_cast<std::int32_t>(exact[static_cast<std::size_t>(tap)] / total * (1 << bits) + 0.5);
        }
        while (taps > 1 && weight[taps - 1] == 0) --taps;
        int zeros = 0;
        while (zeros < taps - 1 && weight[zeros] == 0) ++zeros;
        if (zeros > 0) std::copy(weight + zeros, weight + taps, weight);
        start_[output] = start + zeros;
        taps_[output] = taps - zeros;
        low_ = std::min(low_, start_[output]);
        high_ = std::max(high_, start_[output] + taps_[output]);
    }
    copy_ = axis.is_identity() && !axis.flipped;
}

namespace {

constexpr std::size_t lanes = sum_lanes;

std::size_t whole_groups(std::size_t bytes) { return (bytes + lanes - 1) / lanes * lanes; }

// The vertical pass: computes an output row from input rows.
class VerticalPass {
public:
    VerticalPass(const Weights &weights, WeightedSums sums) : weights_(weights), sums_(sums) {}

    // Return an output row, in `line`, which must have room for whole groups, or in the source.
    const std::uint8_t *row(const Pixels &source, int number, std::uint8_t *line) const {
        const std::uint8_t *first = source.data + (weights_.start(number) - weights_.low()) * source.stride;
        if (weights_.is_copy()) return first;
        const std::size_t length = static_cast<std::size_t>(source.width) * static_cast<std::size_t>(source.channels);
        const std::size_t whole = length / lanes * lanes;
        sum(first, source.stride, number, line, whole / lanes);
        if (whole == length) return line;
        if (length >= lanes) {  // the last group overlaps the previous one
            sum(first + length - lanes, source.stride, number, line + length - lanes, 1);
            return line;
        }
        for (std::size_t i = 0; i < length; ++i) {  // less than a group: bytes after it must not be read
            std::int32_t total = 1 << (Weights::bits - 1);
            for (int tap = 0; tap < weights_.taps(number); ++tap) {
                total += first[tap * source.stride + static_cast<std::ptrdiff_t>(i)] * weights_.of(number)[tap];
            }
            line[i] = static_cast<std::uint8_t>(std::min(std::max(total >> Weights::bits, 0), 255));
        }
        return line;
    }

private:
    void sum(const std::uint8_t *first, std::ptrdiff_t stride, int number, std::uint8_t *out,
             std::size_t groups) const {
        sums_(first, stride, weights_.of(number), weights_.taps(number), out, static_cast<int>(groups));
    }

    const Weights &weights_;
    WeightedSums sums_;
};

// The horizontal pass. It transposes 16 rows at a time, so that the summed bytes are adjacent.
class HorizontalPass {
public:
    HorizontalPass(const Weights &weights, int width, int channels, WeightedSums sums)
        : weights_(weights), channels_(channels), sums_(sums) {
        thread_local Buffer transposed, summed;
        columns_ = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
        outputs_ = whole_groups(static_cast<std::size_t>(weights.count()) * static_cast<std::size_t>(channels));
        transposed_ = transposed.bytes(columns_ * lanes);
        summed_ = summed.bytes(outputs_ * lanes);
    }

    // Bytes of an output row.
    std::size_t stride() const { return outputs_; }

    void rows(const std::uint8_t *const from[lanes], std::uint8_t *const to[lanes]) const {
        rows_to_columns(from, columns_, transposed_);
        const std::size_t pixel = static_cast<std::size_t>(channels_) * lanes;
        for (int output = 0; output < weights_.count(); ++output) {
            const auto start = static_cast<std::size_t>(weights_.start(output) - weights_.low());
            sums_(transposed_ + start * pixel, static_cast<std::ptrdiff_t>(pixel), weights_.of(output),
                  weights_.taps(output), summed_ + static_cast<std::size_t>(output) * pixel, channels_);
        }
        columns_to_rows(summed_, outputs_, to);
    }

private:
    const Weights &weights_;
    int channels_;
    WeightedSums sums_;
    std::size_t columns_, outputs_;
    std::uint8_t *transposed_, *summed_;
};

void resize_rows(const Pixels &source, const VerticalPass &vertical, const OutputImage &out) {
    thread_local Buffer memory;
    std::uint8_t *line =
        memory.bytes(whole_groups(static_cast<std::size_t>(source.width) * static_cast<std::size_t>(source.channels)));
    for (int row = 0; row < out.height; ++row) write_row(out, row, vertical.row(source, row, line));
}

void resize_vertically_first(const Pixels &source, const VerticalPass &vertical, const HorizontalPass &horizontal,
                             const OutputImage &out) {
    thread_local Buffer lines_memory, rows_memory;
    const std::size_t length =
        whole_groups(static_cast<std::size_t>(source.width) * static_cast<std::size_t>(source.channels));
    std::uint8_t *lines = lines_memory.bytes(length * lanes);
    std::uint8_t *rows = rows_memory.bytes(horizontal.stride() * lanes);
    const std::uint8_t *from[lanes];
    std::uint8_t *to[lanes];
    for (std::size_t lane = 0; lane < lanes; ++lane) to[lane] = rows + lane * horizontal.stride();
    for (int row = 0; row < out.height; row += sum_lanes) {
        const int count = std::min(sum_lanes, out.height - row);
        for (int lane = 0; lane < sum_lanes; ++lane) {
            const auto at = static_cast<std::size_t>(lane);
            from[at] = lane < count ? vertical.row(source, row + lane, lines + at * length) : from[0];
        }
        horizontal.rows(from, to);
        for (int lane = 0; lane < count; ++lane) write_row(out, row + lane, to[lane]);
    }
}

void resize_horizontally_first(const Pixels &source, const HorizontalPass &horizontal, const VerticalPass &vertical,
                               const OutputImage &out) {
    thread_local Buffer memory;
    const std::size_t height = whole_groups(static_cast<std::size_t>(source.height));
    const Pixels rows{memory.bytes(height * horizontal.stride()), static_cast<std::ptrdiff_t>(horizontal.stride()),
                      out.width, source.height, source.channels};
    const std::uint8_t *from[lanes];
    std::uint8_t *to[lanes];
    for (int row = 0; row < source.height; row += sum_lanes) {
        for (int lane = 0; lane < sum_lanes; ++lane) {
            from[lane] = source.data + std::min(row + lane, source.height - 1) * source.stride;
            to[lane] = const_cast<std::uint8_t *>(rows.data) + (row + lane) * rows.stride;
        }
        horizontal.rows(from, to);
    }
    resize_rows(rows, vertical, out);
}

}  // namespace

void resize(const Pixels &source, const Weights &columns, const Weights &rows, const OutputImage &out) {
    const WeightedSums sums = weighted_sums();
    const VerticalPass vertical(rows, sums);
    if (columns.is_copy()) return resize_rows(source, vertical, out);
    const HorizontalPass horizontal(columns, source.width, source.channels, sums);
    // The order with fewer pixels between the passes.
    if (rows.is_copy() || std::int64_t{source.width} * out.height < std::int64_t{source.height} * out.width) {
        resize_vertically_first(source, vertical, horizontal, out);
    } else {
        resize_horizontally_first(source, horizontal, vertical, out);
    }
}

}  // namespace bushel
