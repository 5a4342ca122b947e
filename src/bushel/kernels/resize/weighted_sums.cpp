#include "resize/weighted_sums.hpp"

#include <cstring>

#include "common/vectors.hpp"
#include "resize/resize.hpp"

namespace bushel {

namespace {

constexpr std::int32_t half = std::int32_t{1} << (Weights::bits - 1);

using Bytes = std::uint8_t __attribute__((vector_size(16)));
using Lanes = std::int32_t __attribute__((vector_size(16)));

void scalar_sums(const std::uint8_t *first, std::ptrdiff_t stride, const std::int32_t *weights, int taps,
                 std::uint8_t *out, int groups) {
    for (int group = 0; group < groups; ++group, first += sum_lanes, out += sum_lanes) {
        Lanes sum[4];
        for (Lanes &part : sum) part = Lanes{half, half, half, half};
        const std::uint8_t *at = first;
        for (int tap = 0; tap < taps; ++tap, at += stride) {
            const std::int32_t weight = weights[tap];
            for (int part = 0; part < 4; ++part) {
                const std::uint8_t *four = at + 4 * part;
                sum[part] += Lanes{four[0], four[1], four[2], four[3]} * weight;
            }
        }
        for (int lane = 0; lane < sum_lanes; ++lane) {
            const std::int32_t level = sum[lane / 4][lane % 4] >> Weights::bits;
            out[lane] = static_cast<std::uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
        }
    }
}

BUSHEL_VECTORS void vector_sums(const std::uint8_t *first, std::ptrdiff_t stride, const std::int32_t *weights, int taps,
                                std::uint8_t *out, int groups) {
    using namespace vectors;
    for (int group = 0; group < groups; ++group, first += sum_lanes, out += sum_lanes) {
        Vector low_sums = all_32(half), high_sums = low_sums;
        const std::uint8_t *at = first;
        for (int tap = 0; tap < taps; ++tap, at += stride) {
            const Vector weight = all_32(weights[tap]);
            const Half bytes = load_half(at);
            low_sums = add_32(low_sums, multiply_32(widen_first_u8_to_32(bytes), weight));
            high_sums = add_32(high_sums, multiply_32(widen_last_u8_to_32(bytes), weight));
        }
        // Narrowing works within halves of 128 bits; then the quarters are brought back into order.
        const Vector levels =
            narrow_32_to_16(shift_right_32<Weights::bits>(low_sums), shift_right_32<Weights::bits>(high_sums));
        store_half(out, narrow_16_to_u8(quarters_0213(levels)));
    }
}

#ifdef BUSHEL_X86

BUSHEL_AVX512 void avx512_sums(const std::uint8_t *first, std::ptrdiff_t stride, const std::int32_t *weights, int taps,
                               std::uint8_t *out, int groups) {
    for (int group = 0; group < groups; ++group, first += sum_lanes, out += sum_lanes) {
        __m512i sum = _mm512_set1_epi32(half);
        const std::uint8_t *at = first;
        for (int tap = 0; tap < taps; ++tap, at += stride) {
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
            sum =
                _mm512_add_epi32(sum, _mm512_mullo_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(weights[tap])));
        }
        const __m512i levels = _mm512_max_epi32(_mm512_srai_epi32(sum, Weights::bits), _mm512_setzero_si512());
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out), _mm512_cvtusepi32_epi8(levels));
    }
}

#endif

#if defined(__clang__)
#define BUSHEL_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define BUSHEL_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Bytes{__VA_ARGS__})
#endif

// Transpose 16 x 16 bytes by four perfect shuffles.
inline void transpose(Bytes (&tile)[16]) {
    Bytes next[16];
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 8; ++i) {
            next[2 * i] = BUSHEL_SHUFFLE(tile[i], tile[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] =
                BUSHEL_SHUFFLE(tile[i], tile[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        for (int i = 0; i < 8; ++i) {
            tile[2 * i] = BUSHEL_SHUFFLE(next[i], next[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            tile[2 * i + 1] =
                BUSHEL_SHUFFLE(next[i], next[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
    }
}

}  // namespace

WeightedSums weighted_sums() {
    static const WeightedSums fastest = select<WeightedSums>({
#ifdef BUSHEL_X86
        {Simd::avx512, avx512_sums},
#endif
        {vectors_need, vector_sums},
        {Simd::scalar, scalar_sums},
    });
    return fastest;
}

void rows_to_columns(const std::uint8_t *const rows[sum_lanes], std::size_t columns, std::uint8_t *out) {
    std::size_t column = 0;
    Bytes tile[16];
    for (; column + 16 <= columns; column += 16) {
        for (int row = 0; row < 16; ++row) std::memcpy(&tile[row], rows[row] + column, 16);
        transpose(tile);
        std::memcpy(out + column * 16, tile, sizeof tile);
    }
    for (; column < columns; ++column) {
        for (std::size_t row = 0; row < 16; ++row) out[column * 16 + row] = rows[row][column];
    }
}

void columns_to_rows(const std::uint8_t *in, std::size_t columns, std::uint8_t *const rows[sum_lanes]) {
    Bytes tile[16];
    for (std::size_t column = 0; column < columns; column += 16) {
        std::memcpy(tile, in + column * 16, sizeof tile);
        transpose(tile);
        for (int row = 0; row < 16; ++row) std::memcpy(rows[row] + column, &tile[row], 16);
    }
}

}  // namespace bushel
