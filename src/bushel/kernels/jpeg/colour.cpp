#include "jpeg/colour.hpp"

#ifdef BUSHEL_X86
#include <algorithm>
#include <cstring>

namespace bushel {

namespace {

constexpr int step = 16;

BUSHEL_AVX2_INLINE __m256i widened(const std::uint8_t *samples) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(samples)));
}

// value * factor / 65536, rounded.
BUSHEL_AVX2_INLINE __m256i scaled(__m256i values, int factor) {
    const __m256i twice =
        _mm256_mulhi_epi16(_mm256_add_epi16(values, values), _mm256_set1_epi16(static_cast<std::int16_t>(factor)));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

BUSHEL_AVX2_INLINE __m128i levels(__m256i values) {
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi16(values, values), 0x08));
}

// Interleave the bytes of three rows: byte k of the result is byte k / 3 of row k % 3.
BUSHEL_AVX2_INLINE void interleave(__m128i first, __m128i second, __m128i third, std::uint8_t *out) {
    alignas(16) static constexpr std::int8_t from[3][3][16] = {
        {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
         {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
         {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
        {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
         {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
         {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
        {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
         {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
         {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}}};
    for (int part = 0; part < 3; ++part) {
        const auto spread = [part](__m128i row, int number) BUSHEL_AVX2 {
            return _mm_shuffle_epi8(row, _mm_load_si128(reinterpret_cast<const __m128i *>(from[part][number])));
        };
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 16 * part),
                         _mm_or_si128(_mm_or_si128(spread(first, 0), spread(second, 1)), spread(third, 2)));
    }
}

// Write 16 pixels at a time, and the remaining ones at the end.
template <typename Write>
BUSHEL_AVX2_INLINE void write_pixels(std::size_t pixels, std::uint8_t *out, Write write) {
    std::size_t at = 0;
    for (; at + step <= pixels; at += step) write(at, out + 3 * at);
    if (at == pixels) return;
    std::uint8_t rest[3 * step];
    write(at, rest);
    std::memcpy(out + 3 * at, rest, 3 * (pixels - at));
}

// Compute two outputs from each sum and its left and right neighbours.
template <int Bits, int RoundLeft, int RoundRight>
BUSHEL_AVX2 void smooth_columns(const std::uint16_t *sums, int count, std::uint8_t *out) {
    const __m256i round_left = _mm256_set1_epi16(RoundLeft), round_right = _mm256_set1_epi16(RoundRight);
    for (int i = 0; i < count; i += step) {
        const auto at = [sums, i](int shift) BUSHEL_AVX2 {
            return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(sums + i + shift));
        };
        const __m256i middle = at(1), triple = _mm256_add_epi16(middle, _mm256_slli_epi16(middle, 1));
        const __m256i left = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(triple, at(0)), round_left), Bits);
        const __m256i right = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(triple, at(2)), round_right), Bits);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + 2 * i),
                            _mm256_or_si256(left, _mm256_slli_epi16(right, 8)));
    }
}

BUSHEL_AVX2_INLINE void store(std::uint16_t *sums, __m256i values) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums), values);
}

// Repeat the samples at the ends of a row, as neighbours of themselves.
void repeat_ends(std::uint16_t *sums, int width, int first, int last) {
    if (first == 0) sums[0] = sums[1];
    if (last == width) sums[last - first + 1] = sums[last - first];
}

}  // namespace

BUSHEL_AVX2 void ycbcr_to_rgb(const std::uint8_t *luma, const std::uint8_t *cb_row, const std::uint8_t *cr_row,
                              std::size_t pixels, std::uint8_t *out) {
    write_pixels(pixels, out, [luma, cb_row, cr_row](std::size_t at, std::uint8_t *to) BUSHEL_AVX2 {
        const __m256i middle = _mm256_set1_epi16(128);
        const __m256i y = widened(luma + at);
        const __m256i cb = _mm256_sub_epi16(widened(cb_row + at), middle);
        const __m256i cr = _mm256_sub_epi16(widened(cr_row + at), middle);
        // 1.402, 0.34414, 0.71414 and 1.772 times 65536, less multiples of 65536 where they do not fit 16 bits.
        const __m256i r = _mm256_add_epi16(_mm256_add_epi16(y, cr), scaled(cr, 26345));
        const __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), scaled(cb, -14942));
        const __m256i weights =
            _mm256_set1_epi32(static_cast<int>(18734U << 16 | (static_cast<unsigned>(-22554) & 0xFFFF)));
        const auto sum = [weights](__m256i both) BUSHEL_AVX2 {
            return _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(both, weights), _mm256_set1_epi32(32768)), 16);
        };
        const __m256i green =
            _mm256_packs_epi32(sum(_mm256_unpacklo_epi16(cb, cr)), sum(_mm256_unpackhi_epi16(cb, cr)));
        const __m256i g = _mm256_sub_epi16(_mm256_add_epi16(y, green), cr);
        interleave(levels(r), levels(g), levels(b), to);
    });
}

BUSHEL_AVX2 void grey_to_rgb(const std::uint8_t *luma, std::size_t pixels, std::uint8_t *out) {
    write_pixels(pixels, out, [luma](std::size_t at, std::uint8_t *to) BUSHEL_AVX2 {
        const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i *>(luma + at));
        interleave(levels, levels, levels, to);
    });
}

void Upsampler::reserve(int count) {
    const auto room = static_cast<std::size_t>(count) + 4 * step;
    if (sums_.size() < room) sums_.resize(room);
    if (out_.size() < 2 * room) out_.resize(2 * room);
}

BUSHEL_AVX2 const std::uint8_t *Upsampler::smooth(const std::uint8_t *row, int width, int first, int last) {
    const int count = last - first, before = first > 0;
    reserve(count);
    for (int i = -before; i <= count; i += step) store(sums_.data() + 1 + i, widened(row + first + i));
    repeat_ends(sums_.data(), width, first, last);
    smooth_columns<2, 1, 2>(sums_.data(), count, out_.data());
    return out_.data();
}

BUSHEL_AVX2 const std::uint8_t *Upsampler::smooth(const std::uint8_t *near, const std::uint8_t *far, int width,
                                                  int first, int last) {
    const int count = last - first, before = first > 0;
    reserve(count);
    for (int i = -before; i <= count; i += step) {
        const __m256i nearer = widened(near + first + i);
        store(sums_.data() + 1 + i,
              _mm256_add_epi16(_mm256_add_epi16(nearer, _mm256_slli_epi16(nearer, 1)), widened(far + first + i)));
    }
    repeat_ends(sums_.data(), width, first, last);
    smooth_columns<4, 8, 7>(sums_.data(), count, out_.data());
    return out_.data();
}

BUSHEL_AVX2 const std::uint8_t *Upsampler::repeat(const std::uint8_t *row, int first, int last) {
    const int count = last - first;
    reserve(count);
    for (int i = 0; i < count; i += step) {
        const __m256i samples = widened(row + first + i);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out_.data() + 2 * i),
                            _mm256_or_si256(samples, _mm256_slli_epi16(samples, 8)));
    }
    return out_.data();
}

}  // namespace bushel
#endif
