#include "video/yuv420.hpp"

#include <algorithm>

#include "common/vectors.hpp"

namespace bushel {

namespace {

constexpr std::size_t step = 32;
constexpr int luma_zero = 16 * 8, chroma_zero = 128 * 8;  // samples are multiplied by 8 first
constexpr int luma_factor = 9539;                         // 255 / 219, times 8192

// Factors of chroma, times 8192.
struct Factors {
    int red_cr, green_cb, green_cr, blue_cb;
};

constexpr Factors factors_of(Matrix matrix) {
    return matrix == Matrix::bt709 ? Factors{14686, -1747, -4366, 17305} : Factors{13075, -3209, -6660, 16525};
}

// Two rows that share their chroma.
struct RowPair {
    const std::uint8_t *luma[2], *cb, *cr;
    std::uint8_t *out[2];
};

int product(int sample, int zero, int factor) { return ((sample * 8 - zero) * factor) >> 16; }

std::uint8_t level(int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

void convert_pixels(const RowPair &rows, std::size_t first, std::size_t width, const Factors &by) {
    for (std::size_t at = first; at < width; ++at) {
        const int cb = rows.cb[at / 2], cr = rows.cr[at / 2];
        const int red = product(cr, chroma_zero, by.red_cr), blue = product(cb, chroma_zero, by.blue_cb);
        const int green = product(cb, chroma_zero, by.green_cb) + product(cr, chroma_zero, by.green_cr);
        for (int row = 0; row < 2; ++row) {
            const int luma = product(rows.luma[row][at], luma_zero, luma_factor);
            std::uint8_t *const to = rows.out[row] + 3 * at;
            to[0] = level(luma + red), to[1] = level(luma + green), to[2] = level(luma + blue);
        }
    }
}

using namespace vectors;

BUSHEL_VECTORS_INLINE Vector samples(const std::uint8_t *from, int zero) {
    return subtract_16(shift_left_16<3>(widen_u8_to_16(load_half(from))), all_16(zero));
}

// 16 numbers, each of them twice.
struct Twice {
    Vector first, last;
};

BUSHEL_VECTORS_INLINE Twice twice(Vector a) {
    const Vector low = interleave_low_16(a, a), high = interleave_high_16(a, a);
    return {lows(low, high), highs(low, high)};
}

BUSHEL_VECTORS_INLINE void write(const std::uint8_t *luma, Vector red, Vector green, Vector blue, std::uint8_t *to) {
    const Vector y = multiply_high_16(samples(luma, luma_zero), all_16(luma_factor));
    store_bytes_in_threes(to, narrow_16_to_u8(add_16(y, red)), narrow_16_to_u8(add_16(y, green)),
                          narrow_16_to_u8(add_16(y, blue)));
}

// Convert as many pixels as fill vectors. Return their number.
BUSHEL_VECTORS std::size_t convert_steps(const RowPair &rows, std::size_t width, const Factors &by) {
    std::size_t at = 0;
    for (; at + step <= width; at += step) {
        const Vector cb = samples(rows.cb + at / 2, chroma_zero), cr = samples(rows.cr + at / 2, chroma_zero);
        const Twice red = twice(multiply_high_16(cr, all_16(by.red_cr)));
        const Twice blue = twice(multiply_high_16(cb, all_16(by.blue_cb)));
        const Twice green = twice(
            add_16(multiply_high_16(cb, all_16(by.green_cb)), multiply_high_16(cr, all_16(by.green_cr))));
        for (int row = 0; row < 2; ++row) {
            const std::uint8_t *const luma = rows.luma[row] + at;
            std::uint8_t *const to = rows.out[row] + 3 * at;
            write(luma, red.first, green.first, blue.first, to);
            write(luma + step / 2, red.last, green.last, blue.last, to + 3 * step / 2);
        }
    }
    return at;
}

}  // namespace

void yuv420_to_rgb(const Yuv420 &frame, std::size_t width, std::size_t height, Matrix matrix, std::uint8_t *out) {
    static const bool has_vectors = supports(vectors_need);
    const Factors by = factors_of(matrix);
    for (std::size_t row = 0; row + 1 < height; row += 2) {
        const std::uint8_t *const luma = frame.luma + row * frame.luma_stride;
        const std::size_t chroma = row / 2 * frame.chroma_stride;
        std::uint8_t *const to = out + row * 3 * width;
        const RowPair rows{{luma, luma + frame.luma_stride}, frame.cb + chroma, frame.cr + chroma, {to, to + 3 * width}};
        const std::size_t done = has_vectors ? convert_steps(rows, width, by) : 0;
        convert_pixels(rows, done, width, by);
    }
}

}  // namespace bushel
