#include "jpeg/colour.hpp"

#include <algorithm>
#include <cstring>

#include "common/vectors.hpp"

namespace bushel {

namespace {

using namespace vectors;

constexpr int step = 16;

BUSHEL_VECTORS_INLINE Vector widened(const std::uint8_t *samples) { return widen_u8_to_16(load_half(samples)); }

// value * factor / 65536, rounded.
BUSHEL_VECTORS_INLINE Vector scaled(Vector values, int factor) {
    return shift_right_16<1>(add_16(multiply_high_16(add_16(values, values), all_16(factor)), all_16(1)));
}

// Write 16 pixels at a time, and the remaining ones at the end.
template <typename Write>
BUSHEL_VECTORS_INLINE void write_pixels(std::size_t pixels, std::uint8_t *out, Write write) {
    std::size_t at = 0;
    for (; at + step <= pixels; at += step) write(at, out + 3 * at);
    if (at == pixels) return;
    std::uint8_t rest[3 * step];
    write(at, rest);
    std::memcpy(out + 3 * at, rest, 3 * (pixels - at));
}

// Compute two outputs from each sum and its left and right neighbours.
template <int Bits, int RoundLeft, int RoundRight>
BUSHEL_VECTORS void smooth_columns(const std::uint16_t *sums, int count, std::uint8_t *out) {
    const Vector round_left = all_16(RoundLeft), round_right = all_16(RoundRight);
    for (int i = 0; i < count; i += step) {
        const auto at = [sums, i](int shift) BUSHEL_VECTORS { return load(sums + i + shift); };
        const Vector middle = at(1), triple = add_16(middle, shift_left_16<1>(middle));
        const Vector left = shift_right_u16<Bits>(add_16(add_16(triple, at(0)), round_left));
        const Vector right = shift_right_u16<Bits>(add_16(add_16(triple, at(2)), round_right));
        store(out + 2 * i, bits_or(left, shift_left_16<8>(right)));
    }
}

// Repeat the samples at the ends of a row, as neighbours of themselves.
void repeat_ends(std::uint16_t *sums, int width, int first, int last) {
    if (first == 0) sums[0] = sums[1];
    if (last == width) sums[last - first + 1] = sums[last - first];
}

}  // namespace

BUSHEL_VECTORS void ycbcr_to_rgb(const std::uint8_t *luma, const std::uint8_t *cb_row, const std::uint8_t *cr_row,
                                 std::size_t pixels, std::uint8_t *out) {
    write_pixels(pixels, out, [luma, cb_row, cr_row](std::size_t at, std::uint8_t *to) BUSHEL_VECTORS {
        const Vector middle = all_16(128);
        const Vector y = widened(luma + at);
        const Vector cb = subtract_16(widened(cb_row + at), middle);
        const Vector cr = subtract_16(widened(cr_row + at), middle);
        // 1.402, 0.34414, 0.71414 and 1.772 times 65536, less multiples of 65536 where they do not fit 16 bits.
        const Vector r = add_16(add_16(y, cr), scaled(cr, 26345));
        const Vector b = add_16(add_16(y, add_16(cb, cb)), scaled(cb, -14942));
        const Vector weights = all_32(static_cast<int>(18734U << 16 | (static_cast<unsigned>(-22554) & 0xFFFF)));
        const auto sum = [weights](Vector both) BUSHEL_VECTORS {
            return shift_right_32<16>(add_32(multiply_pairs_16(both, weights), all_32(32768)));
        };
        const Vector green = narrow_32_to_16(sum(interleave_low_16(cb, cr)), sum(interleave_high_16(cb, cr)));
        const Vector g = subtract_16(add_16(y, green), cr);
        store_bytes_in_threes(to, narrow_16_to_u8(r), narrow_16_to_u8(g), narrow_16_to_u8(b));
    });
}

BUSHEL_VECTORS void grey_to_rgb(const std::uint8_t *luma, std::size_t pixels, std::uint8_t *out) {
    write_pixels(pixels, out, [luma](std::size_t at, std::uint8_t *to) BUSHEL_VECTORS {
        const Half levels = load_half(luma + at);
        store_bytes_in_threes(to, levels, levels, levels);
    });
}

void Upsampler::reserve(int count) {
    const auto room = static_cast<std::size_t>(count) + 4 * step;
    if (sums_.size() < room) sums_.resize(room);
    if (out_.size() < 2 * room) out_.resize(2 * room);
}

BUSHEL_VECTORS const std::uint8_t *Upsampler::smooth(const std::uint8_t *row, int width, int first, int last) {
    const int count = last - first, before = first > 0;
    reserve(count);
    for (int i = -before; i <= count; i += step) store(sums_.data() + 1 + i, widened(row + first + i));
    repeat_ends(sums_.data(), width, first, last);
    smooth_columns<2, 1, 2>(sums_.data(), count, out_.data());
    return out_.data();
}

BUSHEL_VECTORS const std::uint8_t *Upsampler::smooth(const std::uint8_t *near, const std::uint8_t *far, int width,
                                                     int first, int last) {
    const int count = last - first, before = first > 0;
    reserve(count);
    for (int i = -before; i <= count; i += step) {
        const Vector nearer = widened(near + first + i);
        store(sums_.data() + 1 + i, add_16(add_16(nearer, shift_left_16<1>(nearer)), widened(far + first + i)));
    }
    repeat_ends(sums_.data(), width, first, last);
    smooth_columns<4, 8, 7>(sums_.data(), count, out_.data());
    return out_.data();
}

BUSHEL_VECTORS const std::uint8_t *Upsampler::repeat(const std::uint8_t *row, int first, int last) {
    const int count = last - first;
    reserve(count);
    for (int i = 0; i < count; i += step) {
        const Vector samples = widened(row + first + i);
        store(out_.data() + 2 * i, bits_or(samples, shift_left_16<8>(samples)));
    }
    return out_.data();
}

}  // namespace bushel
