#include "jpeg/idct.hpp"

#ifdef BUSHEL_X86
#include <algorithm>
#include <cstring>

namespace bushel {

namespace {

// The algorithm of Loeffler, Ligtenberg and Moschytz ("Practical Fast 1-D DCT Algorithms with 11 Multiplications",
// 1989) in fixed point, with libjpeg's scaling and rounding, so that all sums are equal to libjpeg's. The factors of
// one input are added up at compile time: then one instruction multiplies and adds a pair of inputs.
constexpr int fraction = 13, first_pass = 2;  // bits after the point; further ones between the passes

constexpr int fixed(double value) { return static_cast<int>(value * (1 << fraction) + 0.5); }

constexpr int f0298 = fixed(0.298631336), f0390 = fixed(0.390180644), f0541 = fixed(0.541196100),
              f0765 = fixed(0.765366865), f0899 = fixed(0.899976223), f1175 = fixed(1.175875602),
              f1501 = fixed(1.501321110), f1847 = fixed(1.847759065), f1961 = fixed(1.961570560),
              f2053 = fixed(2.053119869), f2562 = fixed(2.562915447), f3072 = fixed(3.072711026);

constexpr int pair(int first, int second) {
    return static_cast<int>((static_cast<unsigned>(first) & 0xFFFF) | static_cast<unsigned>(second) << 16);
}

BUSHEL_AVX2_INLINE __m256i factors(int first, int second) { return _mm256_set1_epi32(pair(first, second)); }

// Eight columns of four pairs of inputs; the two values of a pair are adjacent.
struct Pairs {
    __m256i of04, of26, of13, of57;
};

// Rows 0 to 7 in pairs; each half holds four columns of both rows.
struct Rows {
    __m256i of01, of23, of45, of67;
};

template <int Bits>
BUSHEL_AVX2_INLINE __m256i descaled(__m256i sums) {
    return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(1 << (Bits - 1))), Bits);
}

template <int Bits>
BUSHEL_AVX2_INLINE Rows transformed(const Pairs &in) {
    const __m256i even0 = _mm256_madd_epi16(in.of04, factors(1 << fraction, 1 << fraction));
    const __m256i even1 = _mm256_madd_epi16(in.of04, factors(1 << fraction, -(1 << fraction)));
    const __m256i even2 = _mm256_madd_epi16(in.of26, factors(f0541, f0541 - f1847));
    const __m256i even3 = _mm256_madd_epi16(in.of26, factors(f0541 + f0765, f0541));
    const __m256i out0 = _mm256_add_epi32(even0, even3), out3 = _mm256_sub_epi32(even0, even3);
    const __m256i out1 = _mm256_add_epi32(even1, even2), out2 = _mm256_sub_epi32(even1, even2);
    const auto odd = [&in](int one, int three, int five, int seven) BUSHEL_AVX2 {
        return _mm256_add_epi32(_mm256_madd_epi16(in.of13, factors(one, three)),
                                _mm256_madd_epi16(in.of57, factors(five, seven)));
    };
    const __m256i odd0 = odd(f1175 - f0899, f1175 - f1961, f1175, f0298 - f0899 + f1175 - f1961);
    const __m256i odd1 = odd(f1175 - f0390, f1175 - f2562, f2053 - f2562 + f1175 - f0390, f1175);
    const __m256i odd2 = odd(f1175, f3072 - f2562 + f1175 - f1961, f1175 - f2562, f1175 - f1961);
    const __m256i odd3 = odd(f1501 - f0899 + f1175 - f0390, f1175, f1175 - f0390, f1175 - f0899);
    const __m256i row0 = descaled<Bits>(_mm256_add_epi32(out0, odd3));
    const __m256i row7 = descaled<Bits>(_mm256_sub_epi32(out0, odd3));
    const __m256i row1 = descaled<Bits>(_mm256_add_epi32(out1, odd2));
    const __m256i row6 = descaled<Bits>(_mm256_sub_epi32(out1, odd2));
    const __m256i row2 = descaled<Bits>(_mm256_add_epi32(out2, odd1));
    const __m256i row5 = descaled<Bits>(_mm256_sub_epi32(out2, odd1));
    const __m256i row3 = descaled<Bits>(_mm256_add_epi32(out3, odd0));
    const __m256i row4 = descaled<Bits>(_mm256_sub_epi32(out3, odd0));
    return {_mm256_packs_epi32(row0, row1), _mm256_packs_epi32(row2, row3), _mm256_packs_epi32(row4, row5),
            _mm256_packs_epi32(row6, row7)};
}

// Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7, with eight rows each.
struct Columns {
    __m256i of04, of15, of26, of37;
};

BUSHEL_AVX2_INLINE Columns transposed(const Rows &rows) {
    const __m256i even_low = _mm256_unpacklo_epi16(rows.of01, rows.of23);
    const __m256i odd_low = _mm256_unpackhi_epi16(rows.of01, rows.of23);
    const __m256i even_high = _mm256_unpacklo_epi16(rows.of45, rows.of67);
    const __m256i odd_high = _mm256_unpackhi_epi16(rows.of45, rows.of67);
    const __m256i low01 = _mm256_unpacklo_epi16(even_low, odd_low), low23 = _mm256_unpackhi_epi16(even_low, odd_low);
    const __m256i high01 = _mm256_unpacklo_epi16(even_high, odd_high);
    const __m256i high23 = _mm256_unpackhi_epi16(even_high, odd_high);
    return {_mm256_unpacklo_epi64(low01, high01), _mm256_unpackhi_epi64(low01, high01),
            _mm256_unpacklo_epi64(low23, high23), _mm256_unpackhi_epi64(low23, high23)};
}

BUSHEL_AVX2_INLINE __m256i paired(__m128i first, __m128i second) {
    return _mm256_set_m128i(_mm_unpackhi_epi16(first, second), _mm_unpacklo_epi16(first, second));
}

BUSHEL_AVX2_INLINE __m256i halves_paired(__m256i both) {
    return paired(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

BUSHEL_AVX2_INLINE Pairs pairs_of_rows(const std::int16_t *block, const Quantisers &quantisers) {
    const auto row = [block, &quantisers](int number) BUSHEL_AVX2 {
        return _mm_mullo_epi16(_mm_load_si128(reinterpret_cast<const __m128i *>(block + 8 * number)),
                               _mm_load_si128(reinterpret_cast<const __m128i *>(quantisers.factor + 8 * number)));
    };
    return {paired(row(0), row(4)), paired(row(2), row(6)), paired(row(1), row(3)), paired(row(5), row(7))};
}

BUSHEL_AVX2_INLINE Pairs pairs_of_columns(const Columns &columns) {
    const __m256i low = _mm256_unpacklo_epi16(columns.of15, columns.of37);
    const __m256i high = _mm256_unpackhi_epi16(columns.of15, columns.of37);
    return {halves_paired(columns.of04), halves_paired(columns.of26), _mm256_permute2x128_si256(low, high, 0x20),
            _mm256_permute2x128_si256(low, high, 0x31)};
}

// Below these bounds neither 16-bit arithmetic nor the lookup of levels overflows in any version of libjpeg. They are
// powers of two, so that the bits of many magnitudes can be compared at once. Images of 8 bits stay below 2048, 5200
// and 128.
constexpr int max_product = 1 << 13, max_sum = 1 << 14, max_level = 1 << 9;

// The magnitudes of scalar values.
class Range {
public:
    int product(int value) { return seen(value, products_); }
    int sum(int value) { return seen(value, sums_); }
    std::uint8_t level(int value) {
        return static_cast<std::uint8_t>(std::min(std::max(seen(value, levels_) + 128, 0), 255));
    }
    bool holds() const { return products_ < max_product && sums_ < max_sum && levels_ < max_level; }

private:
    static int seen(int value, int &all) {
        all |= value ^ value >> 31;
        return value;
    }

    int products_ = 0, sums_ = 0, levels_ = 0;
};

// Return bits that are set where one of the 16-bit values is not below a bound.
BUSHEL_AVX2_INLINE __m256i beyond(int bound, __m256i first, __m256i second, __m256i third, __m256i fourth) {
    const __m256i all = _mm256_or_si256(_mm256_or_si256(_mm256_abs_epi16(first), _mm256_abs_epi16(second)),
                                        _mm256_or_si256(_mm256_abs_epi16(third), _mm256_abs_epi16(fourth)));
    return _mm256_and_si256(all, _mm256_set1_epi16(static_cast<std::int16_t>(-bound)));
}

// Return the same for the products of a block: the upper halves of the products times 65536 / max_product.
BUSHEL_AVX2_INLINE __m256i beyond(const std::int16_t *block, const Quantisers &quantisers) {
    constexpr int shift = 3;
    static_assert(max_product << shift == 1 << 16, "the shift brings the bound to the upper half");
    __m256i all = _mm256_setzero_si256();
    for (int i = 0; i < 64; i += 16) {
        const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i *>(block + i));
        const __m256i factor = _mm256_load_si256(reinterpret_cast<const __m256i *>(quantisers.factor + i));
        all = _mm256_or_si256(all, _mm256_mulhi_epi16(_mm256_abs_epi16(values), _mm256_slli_epi16(factor, shift)));
    }
    return all;
}

BUSHEL_AVX2_INLINE int rounded(std::int64_t value, int bits) {
    return static_cast<int>((value + (std::int64_t{1} << (bits - 1))) >> bits);
}

BUSHEL_AVX2 bool idct1(const std::int16_t *block, const Quantisers &quantisers, int, std::uint8_t *out, std::size_t) {
    Range range;
    *out = range.level(rounded(range.product(block[0] * quantisers.factor[0]), 3));
    return range.holds();
}

BUSHEL_AVX2 bool idct8(const std::int16_t *block, const Quantisers &quantisers, int last, std::uint8_t *out,
                       std::size_t stride) {
    if (last == 0) {
        std::uint8_t flat;
        const bool holds = idct1(block, quantisers, last, &flat, stride);
        const std::uint64_t row = flat * 0x0101010101010101U;
        for (int i = 0; i < 8; ++i, out += stride) std::memcpy(out, &row, sizeof row);
        return holds;
    }
    const Rows sums = transformed<fraction - first_pass>(pairs_of_rows(block, quantisers));
    const Rows levels = transformed<fraction + first_pass + 3>(pairs_of_columns(transposed(sums)));
    const Columns rows = transposed(levels);
    const __m256i middle = _mm256_set1_epi8(-128);
    const __m256i of0145 = _mm256_add_epi8(_mm256_packs_epi16(rows.of04, rows.of15), middle);
    const __m256i of2367 = _mm256_add_epi8(_mm256_packs_epi16(rows.of26, rows.of37), middle);
    const auto write = [out, stride](std::size_t number, __m128i both) BUSHEL_AVX2 {
        _mm_storel_epi64(reinterpret_cast<__m128i *>(out + number * stride), both);
        _mm_storel_epi64(reinterpret_cast<__m128i *>(out + (number + 1) * stride), _mm_unpackhi_epi64(both, both));
    };
    write(0, _mm256_castsi256_si128(of0145));
    write(2, _mm256_castsi256_si128(of2367));
    write(4, _mm256_extracti128_si256(of0145, 1));
    write(6, _mm256_extracti128_si256(of2367, 1));
    const __m256i wrong =
        _mm256_or_si256(beyond(block, quantisers),
                        _mm256_or_si256(beyond(max_sum, sums.of01, sums.of23, sums.of45, sums.of67),
                                        beyond(max_level, levels.of01, levels.of23, levels.of45, levels.of67)));
    return _mm256_testz_si256(wrong, wrong);
}

// Half and quarter sizes leave out the frequencies that these sizes do not have, in both passes.

constexpr int f0211 = fixed(0.211164243), f0509 = fixed(0.509795579), f0601 = fixed(0.601344887),
              f1061 = fixed(1.061594337), f1451 = fixed(1.451774981), f2172 = fixed(2.172734803);

// Return the weighted sums of two rows of eight: the sums of the first row in the lower half, of the second in the
// upper.
BUSHEL_AVX2_INLINE __m256i sums_of_rows(__m256i rows) {
    constexpr int whole = 1 << (fraction + 1);
    const auto products = [rows](int in0, int in1, int in2, int in3, int in5, int in6, int in7) BUSHEL_AVX2 {
        const __m256i factor = _mm256_setr_epi32(pair(in0, in1), pair(in2, in3), pair(0, in5), pair(in6, in7),
                                                 pair(in0, in1), pair(in2, in3), pair(0, in5), pair(in6, in7));
        return _mm256_madd_epi16(rows, factor);
    };
    const __m256i first = products(whole, f2562, f1847, f0899, -f0601, -f0765, -f0509);
    const __m256i second = products(whole, f1061, -f1847, -f2172, f1451, f0765, -f0211);
    const __m256i third = products(whole, -f1061, -f1847, f2172, -f1451, f0765, f0211);
    const __m256i fourth = products(whole, -f2562, f1847, -f0899, f0601, -f0765, f0509);
    return _mm256_hadd_epi32(_mm256_hadd_epi32(first, second), _mm256_hadd_epi32(third, fourth));
}

// Return two rows of eight, one after the other.
template <int Bits>
BUSHEL_AVX2_INLINE __m256i two_rows(__m256i first, __m256i second) {
    constexpr int in_order = 0xD8;  // undoes the order of quarters that packing makes
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(descaled<Bits>(first), descaled<Bits>(second)), in_order);
}

BUSHEL_AVX2 bool idct4(const std::int16_t *block, const Quantisers &quantisers, int, std::uint8_t *out,
                       std::size_t stride) {
    constexpr int column_bits = fraction - first_pass + 1, row_bits = fraction + first_pass + 3 + 1;
    const Pairs in = pairs_of_rows(block, quantisers);
    const __m256i middle = _mm256_madd_epi16(in.of04, factors(1 << (fraction + 1), 0));
    const __m256i even = _mm256_madd_epi16(in.of26, factors(f1847, -f0765));
    const __m256i low = _mm256_add_epi32(_mm256_madd_epi16(in.of13, factors(f1061, -f2172)),
                                         _mm256_madd_epi16(in.of57, factors(f1451, -f0211)));
    const __m256i high = _mm256_add_epi32(_mm256_madd_epi16(in.of13, factors(f2562, f0899)),
                                          _mm256_madd_epi16(in.of57, factors(-f0601, -f0509)));
    const __m256i outer = _mm256_add_epi32(middle, even), inner = _mm256_sub_epi32(middle, even);
    const __m256i rows01 = two_rows<column_bits>(_mm256_add_epi32(outer, high), _mm256_add_epi32(inner, low));
    const __m256i rows23 = two_rows<column_bits>(_mm256_sub_epi32(inner, low), _mm256_sub_epi32(outer, high));
    const __m256i levels = _mm256_packs_epi32(descaled<row_bits>(sums_of_rows(rows01)),
                                              descaled<row_bits>(sums_of_rows(rows23)));  // rows 0 and 2, 1 and 3
    const __m256i bytes = _mm256_add_epi8(_mm256_packs_epi16(levels, levels), _mm256_set1_epi8(-128));
    const std::uint64_t rows02 = static_cast<std::uint64_t>(_mm256_extract_epi64(bytes, 0));
    const std::uint64_t rows13 = static_cast<std::uint64_t>(_mm256_extract_epi64(bytes, 2));
    for (std::size_t row = 0; row < 4; ++row) {
        const auto four = static_cast<std::uint32_t>((row % 2 ? rows13 : rows02) >> (row / 2 * 32));
        std::memcpy(out + row * stride, &four, sizeof four);
    }
    const __m256i wrong =
        _mm256_or_si256(beyond(block, quantisers), _mm256_or_si256(beyond(max_sum, rows01, rows23, rows01, rows23),
                                                                   beyond(max_level, levels, levels, levels, levels)));
    return _mm256_testz_si256(wrong, wrong);
}

// Wide enough for the sums of any coefficients that a file can hold.
using Wide = std::int64_t;

struct Two {
    int out[2];
};

template <int Bits>
BUSHEL_AVX2_INLINE Two two(Wide in0, Wide in1, Wide in3, Wide in5, Wide in7) {
    const Wide even = in0 * (1 << (fraction + 2));
    const Wide odd =
        -in7 * fixed(0.720959822) + in5 * fixed(0.850430095) - in3 * fixed(1.272758580) + in1 * fixed(3.624509785);
    return {{rounded(even + odd, Bits), rounded(even - odd, Bits)}};
}

BUSHEL_AVX2 bool idct2(const std::int16_t *block, const Quantisers &quantisers, int, std::uint8_t *out,
                       std::size_t stride) {
    Range range;
    int columns[2][8];
    for (const int column : {0, 1, 3, 5, 7}) {
        const auto in = [&](int row) {
            return range.product(block[8 * row + column] * quantisers.factor[8 * row + column]);
        };
        const Two sums = two<fraction - first_pass + 2>(in(0), in(1), in(3), in(5), in(7));
        columns[0][column] = range.sum(sums.out[0]), columns[1][column] = range.sum(sums.out[1]);
    }
    for (int row = 0; row < 2; ++row, out += stride) {
        const int *in = columns[row];
        const Two levels = two<fraction + first_pass + 3 + 2>(in[0], in[1], in[3], in[5], in[7]);
        out[0] = range.level(levels.out[0]), out[1] = range.level(levels.out[1]);
    }
    return range.holds();
}

}  // namespace

InverseDct inverse_dct(int size) { return size == 8 ? idct8 : size == 4 ? idct4 : size == 2 ? idct2 : idct1; }

}  // namespace bushel
#endif
