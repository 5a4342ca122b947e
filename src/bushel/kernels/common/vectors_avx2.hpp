// The operations of common/vectors.hpp with AVX2.
#pragma once
#include <cstdint>

#include "common/simd.hpp"

namespace bushel::avx2 {

using Half = __m128i;
using Vector = __m256i;

#define BUSHEL_OPERATION BUSHEL_AVX2_INLINE

BUSHEL_OPERATION Half load_half(const void *from) { return _mm_loadu_si128(static_cast<const __m128i *>(from)); }
BUSHEL_OPERATION Vector load(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }
BUSHEL_OPERATION void store_half(void *to, Half a) { _mm_storeu_si128(static_cast<__m128i *>(to), a); }
BUSHEL_OPERATION void store(void *to, Vector a) { _mm256_storeu_si256(static_cast<__m256i *>(to), a); }
BUSHEL_OPERATION void store_first_8_bytes(void *to, Half a) { _mm_storel_epi64(static_cast<__m128i *>(to), a); }
BUSHEL_OPERATION void store_last_8_bytes(void *to, Half a) { store_first_8_bytes(to, _mm_unpackhi_epi64(a, a)); }

BUSHEL_OPERATION Vector all_8(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
BUSHEL_OPERATION Vector all_16(int value) { return _mm256_set1_epi16(static_cast<short>(value)); }
BUSHEL_OPERATION Vector all_32(int value) { return _mm256_set1_epi32(value); }

BUSHEL_OPERATION Half low(Vector a) { return _mm256_castsi256_si128(a); }
BUSHEL_OPERATION Half high(Vector a) { return _mm256_extracti128_si256(a, 1); }
BUSHEL_OPERATION Vector lows(Vector a, Vector b) { return _mm256_permute2x128_si256(a, b, 0x20); }
BUSHEL_OPERATION Vector highs(Vector a, Vector b) { return _mm256_permute2x128_si256(a, b, 0x31); }
BUSHEL_OPERATION Vector quarters_0213(Vector a) { return _mm256_permute4x64_epi64(a, 0xD8); }

BUSHEL_OPERATION Vector bits_or(Vector a, Vector b) { return _mm256_or_si256(a, b); }
BUSHEL_OPERATION Vector bits_and(Vector a, Vector b) { return _mm256_and_si256(a, b); }
BUSHEL_OPERATION bool is_zero(Vector a) { return _mm256_testz_si256(a, a); }
BUSHEL_OPERATION Vector equal_8(Vector a, Vector b) { return _mm256_cmpeq_epi8(a, b); }
BUSHEL_OPERATION Vector digits_8(Vector a) {
    const Vector value = _mm256_sub_epi8(a, all_8('0'));
    return equal_8(value, _mm256_min_epu8(value, all_8(9)));
}
BUSHEL_OPERATION std::uint32_t mask_of(Vector a) { return static_cast<std::uint32_t>(_mm256_movemask_epi8(a)); }
BUSHEL_OPERATION std::uint32_t mask_of_byte(Vector a, int byte) { return mask_of(equal_8(a, all_8(byte))); }
BUSHEL_OPERATION int find_byte(Vector a, int byte) {
    const std::uint32_t found = mask_of_byte(a, byte);
    return found ? __builtin_ctz(found) : 32;
}

BUSHEL_OPERATION Vector add_8(Vector a, Vector b) { return _mm256_add_epi8(a, b); }
BUSHEL_OPERATION Vector add_16(Vector a, Vector b) { return _mm256_add_epi16(a, b); }
BUSHEL_OPERATION Vector subtract_16(Vector a, Vector b) { return _mm256_sub_epi16(a, b); }
BUSHEL_OPERATION Vector add_32(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
BUSHEL_OPERATION Vector subtract_32(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
BUSHEL_OPERATION Vector add_neighbours_32(Vector a, Vector b) { return _mm256_hadd_epi32(a, b); }
BUSHEL_OPERATION Vector magnitude_16(Vector a) { return _mm256_abs_epi16(a); }

BUSHEL_OPERATION Half multiply_16(Half a, Half b) { return _mm_mullo_epi16(a, b); }
BUSHEL_OPERATION Vector multiply_high_16(Vector a, Vector b) { return _mm256_mulhi_epi16(a, b); }
BUSHEL_OPERATION Vector multiply_pairs_u8(Vector a, Vector b) { return _mm256_maddubs_epi16(a, b); }
BUSHEL_OPERATION Vector multiply_pairs_16(Vector a, Vector b) { return _mm256_madd_epi16(a, b); }
BUSHEL_OPERATION Vector multiply_32(Vector a, Vector b) { return _mm256_mullo_epi32(a, b); }

template <int Bits>
BUSHEL_OPERATION Vector shift_left_16(Vector a) {
    return _mm256_slli_epi16(a, Bits);
}
template <int Bits>
BUSHEL_OPERATION Vector shift_right_16(Vector a) {
    return _mm256_srai_epi16(a, Bits);
}
template <int Bits>
BUSHEL_OPERATION Vector shift_right_u16(Vector a) {
    return _mm256_srli_epi16(a, Bits);
}
template <int Bits>
BUSHEL_OPERATION Vector shift_right_32(Vector a) {
    return _mm256_srai_epi32(a, Bits);
}

BUSHEL_OPERATION Vector widen_u8_to_16(Half a) { return _mm256_cvtepu8_epi16(a); }
BUSHEL_OPERATION Vector widen_first_u8_to_32(Half a) { return _mm256_cvtepu8_epi32(a); }
BUSHEL_OPERATION Vector widen_last_u8_to_32(Half a) { return _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(a, a)); }
BUSHEL_OPERATION Vector narrow_32_to_16(Vector a, Vector b) { return _mm256_packs_epi32(a, b); }
BUSHEL_OPERATION Vector narrow_16_to_8(Vector a, Vector b) { return _mm256_packs_epi16(a, b); }
BUSHEL_OPERATION Half narrow_16_to_u8(Vector a) { return _mm_packus_epi16(low(a), high(a)); }

BUSHEL_OPERATION Vector interleave_16(Half a, Half b) {
    return _mm256_set_m128i(_mm_unpackhi_epi16(a, b), _mm_unpacklo_epi16(a, b));
}
BUSHEL_OPERATION Vector interleave_low_16(Vector a, Vector b) { return _mm256_unpacklo_epi16(a, b); }
BUSHEL_OPERATION Vector interleave_high_16(Vector a, Vector b) { return _mm256_unpackhi_epi16(a, b); }
BUSHEL_OPERATION Vector interleave_low_64(Vector a, Vector b) { return _mm256_unpacklo_epi64(a, b); }
BUSHEL_OPERATION Vector interleave_high_64(Vector a, Vector b) { return _mm256_unpackhi_epi64(a, b); }

BUSHEL_OPERATION void store_bytes_in_threes(void *to, Half first, Half second, Half third) {
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
        const Half bytes = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(first, load_half(from[part][0])),
                                                     _mm_shuffle_epi8(second, load_half(from[part][1]))),
                                        _mm_shuffle_epi8(third, load_half(from[part][2])));
        store_half(static_cast<std::uint8_t *>(to) + 16 * part, bytes);
    }
}

#undef BUSHEL_OPERATION

}  // namespace bushel::avx2
