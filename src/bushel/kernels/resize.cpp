#include "resize.hpp"

#include <algorithm>
#include <cmath>

#include "buffer.hpp"
#include "resize_sums.hpp"

namespace bushel {

// The triangle filter, as wide as the distance of two output pixels in the input but at least two input pixels; its
// weights are normalised, then rounded to fixed point.
Weights::Weights(const Axis &axis) {
    const double scale = (axis.end - axis.begin) / axis.size;
    const double support = std::max(scale, 1.0);
    const double narrow = 1.0 / support;
    const auto count = static_cast<std::size_t>(axis.count);
    width_ = static_cast<std::size_t>(std::min(std::ceil(support) * 2 + 1, static_cast<double>(axis.available)));
    start_.resize(count);
    taps_.resize(count);
    weight_.resize(count * width_);
    std::vector<double> exact(width_);
    low_ = axis.available;
    for (std::size_t output = 0; output < count; ++output) {
        const int place = axis.first + static_cast<int>(axis.flipped ? count - 1 - output : output);
        const double centre = axis.begin + (place + 0.5) * scale;
        int start = std::max(0, static_cast<int>(centre - support + 0.5));
        int taps = std::min(axis.available, static_cast<int>(centre + support + 0.5)) - start;
        double total = 0;
        for (int tap = 0; tap < taps; ++tap) {
            const double distance = std::abs((tap + start - centre + 0.5) * narrow);
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

// The pass over columns: one output row from the rows above and below each other.
class Down {
public:
    Down(const Weights &weights, WeightedSums sums) : weights_(weights), sums_(sums) {}

    // `line` has room for whole groups; what is returned may lie in the source.
    const std::uint8_t *row(const Pixels &source, int number, std::uint8_t *line) const {
        const std::uint8_t *first = source.data + (weights_.start(number) - weights_.low()) * source.stride;
        if (weights_.is_copy()) return first;
        const std::size_t length = static_cast<std::size_t>(source.width) * static_cast<std::size_t>(source.channels);
        const std::size_t whole = length / lanes * lanes;
        sum(first, source.stride, number, line, whole / lanes);
        if (whole == length) return line;
        if (length >= lanes) {  // the last group overlaps the one before
            sum(first + length - lanes, source.stride, number, line + length - lanes, 1);
            return line;
        }
        for (std::size_t i = 0; i < length; ++i) {  // fewer than a group in all: not to be read beyond
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

// The pass along rows. 16 rows at a time are turned into columns, so that what is summed lies side by side.
class Across {
public:
    Across(const Weights &weights, int width, int channels, WeightedSums sums)
        : weights_(weights), channels_(channels), sums_(sums) {
        thread_local Buffer turned, summed;
        columns_ = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
        outputs_ = whole_groups(static_cast<std::size_t>(weights.count()) * static_cast<std::size_t>(channels));
        turned_ = turned.bytes(columns_ * lanes);
        summed_ = summed.bytes(outputs_ * lanes);
    }

    // Bytes that a row of the output takes.
    std::size_t stride() const { return outputs_; }

    void rows(const std::uint8_t *const from[lanes], std::uint8_t *const to[lanes]) const {
        rows_to_columns(from, columns_, turned_);
        const std::size_t pixel = static_cast<std::size_t>(channels_) * lanes;
        for (int output = 0; output < weights_.count(); ++output) {
            const auto start = static_cast<std::size_t>(weights_.start(output) - weights_.low());
            sums_(turned_ + start * pixel, static_cast<std::ptrdiff_t>(pixel), weights_.of(output),
                  weights_.taps(output), summed_ + static_cast<std::size_t>(output) * pixel, channels_);
        }
        columns_to_rows(summed_, outputs_, to);
    }

private:
    const Weights &weights_;
    int channels_;
    WeightedSums sums_;
    std::size_t columns_, outputs_;
    std::uint8_t *turned_, *summed_;
};

void resize_down(const Pixels &source, const Down &down, const Slot &slot) {
    thread_local Buffer memory;
    std::uint8_t *line =
        memory.bytes(whole_groups(static_cast<std::size_t>(source.width) * static_cast<std::size_t>(source.channels)));
    for (int row = 0; row < slot.height; ++row) write_row(slot, row, down.row(source, row, line));
}

void resize_down_then_across(const Pixels &source, const Down &down, const Across &across, const Slot &slot) {
    thread_local Buffer lines_memory, rows_memory;
    const std::size_t length =
        whole_groups(static_cast<std::size_t>(source.width) * static_cast<std::size_t>(source.channels));
    std::uint8_t *lines = lines_memory.bytes(length * lanes);
    std::uint8_t *rows = rows_memory.bytes(across.stride() * lanes);
    const std::uint8_t *from[lanes];
    std::uint8_t *to[lanes];
    for (std::size_t lane = 0; lane < lanes; ++lane) to[lane] = rows + lane * across.stride();
    for (int row = 0; row < slot.height; row += sum_lanes) {
        const int count = std::min(sum_lanes, slot.height - row);
        for (int lane = 0; lane < sum_lanes; ++lane) {
            const auto at = static_cast<std::size_t>(lane);
            from[at] = lane < count ? down.row(source, row + lane, lines + at * length) : from[0];
        }
        across.rows(from, to);
        for (int lane = 0; lane < count; ++lane) write_row(slot, row + lane, to[lane]);
    }
}

void resize_across_then_down(const Pixels &source, const Across &across, const Down &down, const Slot &slot) {
    thread_local Buffer memory;
    const std::size_t height = whole_groups(static_cast<std::size_t>(source.height));
    const Pixels rows{memory.bytes(height * across.stride()), static_cast<std::ptrdiff_t>(across.stride()), slot.width,
                      source.height, source.channels};
    const std::uint8_t *from[lanes];
    std::uint8_t *to[lanes];
    for (int row = 0; row < source.height; row += sum_lanes) {
        for (int lane = 0; lane < sum_lanes; ++lane) {
            from[lane] = source.data + std::min(row + lane, source.height - 1) * source.stride;
            to[lane] = const_cast<std::uint8_t *>(rows.data) + (row + lane) * rows.stride;
        }
        across.rows(from, to);
    }
    resize_down(rows, down, slot);
}

}  // namespace

void resize(const Pixels &source, const Weights &columns, const Weights &rows, const Slot &slot) {
    const WeightedSums sums = weighted_sums();
    const Down down(rows, sums);
    if (columns.is_copy()) return resize_down(source, down, slot);
    const Across across(columns, source.width, source.channels, sums);
    // The order in which fewer pixels lie between the passes.
    if (rows.is_copy() || std::int64_t{source.width} * slot.height < std::int64_t{source.height} * slot.width) {
        resize_down_then_across(source, down, across, slot);
    } else {
        resize_across_then_down(source, across, down, slot);
    }
}

}  // namespace bushel
