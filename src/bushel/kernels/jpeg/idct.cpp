#include "jpeg/idct.hpp"

#include <algorithm>
#include <cstring>

#include "common/vectors.hpp"

namespace bushel {

namespace {

using namespace vectors;

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

BUSHEL_VECTORS_INLINE Vector factors(int first, int second) { return all_32(pair(first, second)); }

// Eight columns of four pairs of inputs; the two values of a pair are adjacent.
struct Pairs {
    Vector of04, of26, of13, of57;
};

// Rows 0 to 7 in pairs; each half holds four columns of both rows.
struct Rows {
    Vector of01, of23, of45, of67;
};

template <int Bits>
BUSHEL_VECTORS_INLINE Vector descaled(Vector sums) {
    return shift_right_32<Bits>(add_32(sums, all_32(1 << (Bits - 1))));
}

template <int Bits>
BUSHEL_VECTORS_INLINE Rows transformed(const Pairs &in) {
    const Vector even0 = multiply_pairs_16(in.of04, factors(1 << fraction, 1 << fraction));
    const Vector even1 = multiply_pairs_16(in.of04, factors(1 << fraction, -(1 << fraction)));
    const Vector even2 = multiply_pairs_16(in.of26, factors(f0541, f0541 - f1847));
    const Vector even3 = multiply_pairs_16(in.of26, factors(f0541 + f0765, f0541));
    const Vector out0 = add_32(even0, even3), out3 = subtract_32(even0, even3);
    const Vector out1 = add_32(even1, even2), out2 = subtract_32(even1, even2);
    const auto odd = [&in](int one, int three, int five, int seven) BUSHEL_VECTORS {
        return add_32(multiply_pairs_16(in.of13, factors(one, three)),
                      multiply_pairs_16(in.of57, factors(five, seven)));
    };
    const Vector odd0 = odd(f1175 - f0899, f1175 - f1961, f1175, f0298 - f0899 + f1175 - f1961);
    const Vector odd1 = odd(f1175 - f0390, f1175 - f2562, f2053 - f2562 + f1175 - f0390, f1175);
    const Vector odd2 = odd(f1175, f3072 - f2562 + f1175 - f1961, f1175 - f2562, f1175 - f1961);
    const Vector odd3 = odd(f1501 - f0899 + f1175 - f0390, f1175, f1175 - f0390, f1175 - f0899);
    const Vector row0 = descaled<Bits>(add_32(out0, odd3));
    const Vector row7 = descaled<Bits>(subtract_32(out0, odd3));
    const Vector row1 = descaled<Bits>(add_32(out1, odd2));
    const Vector row6 = descaled<Bits>(subtract_32(out1, odd2));
    const Vector row2 = descaled<Bits>(add_32(out2, odd1));
    const Vector row5 = descaled<Bits>(subtract_32(out2, odd1));
    const Vector row3 = descaled<Bits>(add_32(out3, odd0));
    const Vector row4 = descaled<Bits>(subtract_32(out3, odd0));
    return {narrow_32_to_16(row0, row1), narrow_32_to_16(row2, row3), narrow_32_to_16(row4, row5),
            narrow_32_to_16(row6, row7)};
}

// Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7, with eight rows each.
struct Columns {
    Vector of04, of15, of26, of37;
};

BUSHEL_VECTORS_INLINE Columns transposed(const Rows &rows) {
    const Vector even_low = interleave_low_16(rows.of01, rows.of23);
    const Vector odd_low = interleave_high_16(rows.of01, rows.of23);
    const Vector even_high = interleave_low_16(rows.of45, rows.of67);
    const Vector odd_high = interleave_high_16(rows.of45, rows.of67);
    const Vector low01 = interleave_low_16(even_low, odd_low), low23 = interleave_high_16(even_low, odd_low);
    const Vector high01 = interleave_low_16(even_high, odd_high);
    const Vector high23 = interleave_high_16(even_high, odd_high);
    return {interleave_low_64(low01, high01), interleave_high_64(low01, high01), interleave_low_64(low23, high23),
            interleave_high_64(low23, high23)};
}

BUSHEL_VECTORS_INLINE Vector halves_interleaved(Vector both) { return interleave_16(low(both), high(both)); }

BUSHEL_VECTORS_INLINE Pairs pairs_of_rows(const std::int16_t *block, const Quantisers &quantisers) {
    const auto row = [block, &quantisers](int number) BUSHEL_VECTORS {
        return multiply_16(load_half(block + 8 * number), load_half(quantisers.factor + 8 * number));
    };
    return {interleave_16(row(0), row(4)), interleave_16(row(2), row(6)), interleave_16(row(1), row(3)),
            interleave_16(row(5), row(7))};
}

BUSHEL_VECTORS_INLINE Pairs pairs_of_columns(const Columns &columns) {
    const Vector even = interleave_low_16(columns.of15, columns.of37);
    const Vector odd = interleave_high_16(columns.of15, columns.of37);
    return {halves_interleaved(columns.of04), halves_interleaved(columns.of26), lows(even, odd), highs(even, odd)};
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
BUSHEL_VECTORS_INLINE Vector beyond(int bound, Vector first, Vector second, Vector third, Vector fourth) {
    const Vector all =
        bits_or(bits_or(magnitude_16(first), magnitude_16(second)), bits_or(magnitude_16(third), magnitude_16(fourth)));
    return bits_and(all, all_16(-bound));
}

// Return the same for the products of a block: the upper halves of the products times 65536 / max_product.
BUSHEL_VECTORS_INLINE Vector beyond(const std::int16_t *block, const Quantisers &quantisers) {
    constexpr int shift = 3;
    static_assert(max_product << shift == 1 << 16, "the shift brings the bound to the upper half");
    Vector all = all_16(0);
    for (int i = 0; i < 64; i += 16) {
        const Vector values = load(block + i);
        const Vector factor = load(quantisers.factor + i);
        all = bits_or(all, multiply_high_16(magnitude_16(values), shift_left_16<shift>(factor)));
    }
    return all;
}

BUSHEL_VECTORS_INLINE int rounded(std::int64_t value, int bits) {
    return static_cast<int>((value + (std::int64_t{1} << (bits - 1))) >> bits);
}

BUSHEL_VECTORS bool idct1(const std::int16_t *block, const Quantisers &quantisers, int, std::uint8_t *out,
                          std::size_t) {
    Range range;
    *out = range.level(rounded(range.product(block[0] * quantisers.factor[0]), 3));
    return range.holds();
}

BUSHEL_VECTORS bool idct8(const std::int16_t *block, const Quantisers &quantisers, int last, std::uint8_t *out,
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
    const Vector middle = all_8(-128);
    const Vector of0145 = add_8(narrow_16_to_8(rows.of04, rows.of15), middle);
    const Vector of2367 = add_8(narrow_16_to_8(rows.of26, rows.of37), middle);
    const auto write = [out, stride](std::size_t number, Half both) BUSHEL_VECTORS {
        store_first_8_bytes(out + number * stride, both);
        store_last_8_bytes(out + (number + 1) * stride, both);
    };
    write(0, low(of0145));
    write(2, low(of2367));
    write(4, high(of0145));
    write(6, high(of2367));
    const Vector wrong = bits_or(beyond(block, quantisers),
                                 bits_or(beyond(max_sum, sums.of01, sums.of23, sums.of45, sums.of67),
                                         beyond(max_level, levels.of01, levels.of23, levels.of45, levels.of67)));
    return is_zero(wrong);
}

// Half and quarter sizes leave out the frequencies that these sizes do not have, in both passes.

constexpr int f0211 = fixed(0.211164243), f0509 = fixed(0.509795579), f0601 = fixed(0.601344887),
              f1061 = fixed(1.061594337), f1451 = fixed(1.451774981), f2172 = fixed(2.172734803);

// Return the weighted sums of two rows of eight: the sums of the first row in the lower half, of the second in the
// upper.
BUSHEL_VECTORS_INLINE Vector sums_of_rows(Vector rows) {
    constexpr int whole = 1 << (fraction + 1);
    const auto products = [rows](int in0, int in1, int in2, int in3, int in5, int in6, int in7) BUSHEL_VECTORS {
        const std::int32_t factor[] = {pair(in0, in1), pair(in2, in3), pair(0, in5), pair(in6, in7),
                                       pair(in0, in1), pair(in2, in3), pair(0, in5), pair(in6, in7)};
        return multiply_pairs_16(rows, load(factor));
    };
    const Vector first = products(whole, f2562, f1847, f0899, -f0601, -f0765, -f0509);
    const Vector second = products(whole, f1061, -f1847, -f2172, f1451, f0765, -f0211);
    const Vector third = products(whole, -f1061, -f1847, f2172, -f1451, f0765, f0211);
    const Vector fourth = products(whole, -f2562, f1847, -f0899, f0601, -f0765, f0509);
    return add_neighbours_32(add_neighbours_32(first, second), add_neighbours_32(third, fourth));
}

// Return two rows of eight, one after the other.
template <int Bits>
BUSHEL_VECTORS_INLINE Vector two_rows(Vector first, Vector second) {
    return quarters_0213(narrow_32_to_16(descaled<Bits>(first), descaled<Bits>(second)));
}

BUSHEL_VECTORS bool idct4(const std::int16_t *block, const Quantisers &quantisers, int, std::uint8_t *out,
                          std::size_t stride) {
    constexpr int column_bits = fraction - first_pass + 1, row_bits = fraction + first_pass + 3 + 1;
    const Pairs in = pairs_of_rows(block, quantisers);
    const Vector middle = multiply_pairs_16(in.of04, factors(1 << (fraction + 1), 0));
    const Vector even = multiply_pairs_16(in.of26, factors(f1847, -f0765));
    const Vector inner_odd =
        add_32(multiply_pairs_16(in.of13, factors(f1061, -f2172)), multiply_pairs_16(in.of57, factors(f1451, -f0211)));
    const Vector outer_odd =
        add_32(multiply_pairs_16(in.of13, factors(f2562, f0899)), multiply_pairs_16(in.of57, factors(-f0601, -f0509)));
    const Vector outer = add_32(middle, even), inner = subtract_32(middle, even);
    const Vector rows01 = two_rows<column_bits>(add_32(outer, outer_odd), add_32(inner, inner_odd));
    const Vector rows23 = two_rows<column_bits>(subtract_32(inner, inner_odd), subtract_32(outer, outer_odd));
    const Vector levels = narrow_32_to_16(descaled<row_bits>(sums_of_rows(rows01)),
                                          descaled<row_bits>(sums_of_rows(rows23)));  // rows 0 and 2, 1 and 3
    const Vector bytes = add_8(narrow_16_to_8(levels, levels), all_8(-128));
    std::uint64_t rows02, rows13;
    store_first_8_bytes(&rows02, low(bytes));
    store_first_8_bytes(&rows13, high(bytes));
    for (std::size_t row = 0; row < 4; ++row) {
        const auto four = static_cast<std::uint32_t>((row % 2 ? rows13 : rows02) >> (row / 2 * 32));
        std::memcpy(out + row * stride, &four, sizeof four);
    }
    const Vector wrong = bits_or(beyond(block, quantisers), bits_or(beyond(max_sum, rows01, rows23, rows01, rows23),
                                                                    beyond(max_level, levels, levels, levels, levels)));
    return is_zero(wrong);
}

// Wide enough for the sums of any coefficients that a file can hold.
using Wide = std::int64_t;

struct Two {
    int out[2];
};

template <int Bits>
BUSHEL_VECTORS_INLINE Two two(Wide in0, Wide in1, Wide in3, Wide in5, Wide in7) {
    const Wide even = in0 * (1 << (fraction + 2));
    const Wide odd =
        -in7 * fixed(0.720959822) + in5 * fixed(0.850430095) - in3 * fixed(1.272758580) + in1 * fixed(3.624509785);
    return {{rounded(even + odd, Bits), rounded(even - odd, Bits)}};
}

BUSHEL_VECTORS bool idct2(const std::int16_t *block, const Quantisers &quantisers, int, std::uint8_t *out,
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
