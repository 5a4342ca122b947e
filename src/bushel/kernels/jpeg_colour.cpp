#include "jpeg_colour.hpp"

#ifdef BUSHEL_BASELINE
#include <cstring>

namespace bushel {

namespace {

constexpr std::size_t step = 16;

BUSHEL_INLINE __m256i widened(const std::uint8_t *samples) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(samples)));
}

// factor / 65536 of each value, rounded.
BUSHEL_INLINE __m256i scaled(__m256i values, int factor) {
    const __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(values, values),
                                             _mm256_set1_epi16(static_cast<std::int16_t>(factor)));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

BUSHEL_INLINE __m128i levels(__m256i values) {
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi16(values, values), 0x08));
}

// Bytes of three rows in turn. Of the k-th byte of the result, row k % 3 has it at place k / 3.
BUSHEL_INLINE void interleave(__m128i first, __m128i second, __m128i third, std::uint8_t *out) {
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
        const auto spread = [part](__m128i row, int number) BUSHEL_WIDE {
            return _mm_shuffle_epi8(row, _mm_load_si128(reinterpret_cast<const __m128i *>(from[part][number])));
        };
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 16 * part),
                         _mm_or_si128(_mm_or_si128(spread(first, 0), spread(second, 1)), spread(third, 2)));
    }
}

// Writes 16 pixels at a time; of the last ones as many as there are.
template <typename Write>
BUSHEL_INLINE void write_pixels(std::size_t pixels, std::uint8_t *out, Write write) {
    std::size_t at = 0;
    for (; at + step <= pixels; at += step) write(at, out + 3 * at);
    if (at == pixels) return;
    std::uint8_t rest[3 * step];
    write(at, rest);
    std::memcpy(out + 3 * at, rest, 3 * (pixels - at));
}

}  // namespace

BUSHEL_WIDE void ycbcr_to_rgb(const std::uint8_t *luma, const std::uint8_t *blue, const std::uint8_t *red,
                              std::size_t pixels, std::uint8_t *out) {
    write_pixels(pixels, out, [luma, blue, red](std::size_t at, std::uint8_t *to) BUSHEL_WIDE {
        const __m256i middle = _mm256_set1_epi16(128);
        const __m256i y = widened(luma + at);
        const __m256i cb = _mm256_sub_epi16(widened(blue + at), middle);
        const __m256i cr = _mm256_sub_epi16(widened(red + at), middle);
        // 1.402, 0.34414, 0.71414 and 1.772 in 65536ths, less whole ones where they do not fit 16 bits.
        const __m256i r = _mm256_add_epi16(_mm256_add_epi16(y, cr), scaled(cr, 26345));
        const __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), scaled(cb, -14942));
        const __m256i weights = _mm256_set1_epi32(static_cast<int>(18734U << 16 | (static_cast<unsigned>(-22554) & 0xFFFF)));
        const auto sum = [weights](__m256i both) BUSHEL_WIDE {
            return _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(both, weights), _mm256_set1_epi32(32768)), 16);
        };
        const __m256i green = _mm256_packs_epi32(sum(_mm256_unpacklo_epi16(cb, cr)), sum(_mm256_unpackhi_epi16(cb, cr)));
        const __m256i g = _mm256_sub_epi16(_mm256_add_epi16(y, green), cr);
        interleave(levels(r), levels(g), levels(b), to);
    });
}

BUSHEL_WIDE void grey_to_rgb(const std::uint8_t *luma, std::size_t pixels, std::uint8_t *out) {
    write_pixels(pixels, out, [luma](std::size_t at, std::uint8_t *to) BUSHEL_WIDE {
        const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i *>(luma + at));
        interleave(levels, levels, levels, to);
    });
}

}  // namespace bushel
#endif
