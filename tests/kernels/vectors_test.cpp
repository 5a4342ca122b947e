// Compares every operation of common/vectors.hpp with its scalar form, on random vectors and on extreme ones. Prints
// the operations that differ, and exits with 1 then. make/aarch64.sh and tests/kernels/test_simd.py run it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

#include "common/vectors.hpp"
#include "common/vectors_scalar.hpp"

using namespace bushel;

namespace {

constexpr int rounds = 20000;

std::mt19937_64 random_bits(1);
int compared = 0, different = 0;

struct Bytes {
    std::uint8_t values[32];
};

// Random bytes, of which some are extreme: the largest and smallest elements of 8, 16 and 32 bits.
Bytes random_bytes() {
    Bytes bytes;
    for (int i = 0; i < 32; i += 8) {
        const std::uint64_t word = random_bits();
        std::memcpy(bytes.values + i, &word, 8);
    }
    static constexpr std::uint8_t extremes[] = {0x00, 0x7F, 0x80, 0xFF};
    const std::uint64_t chosen = random_bits();
    for (int i = 0; i < 32; ++i) {
        if (chosen >> (2 * (i % 32)) & 1) bytes.values[i] = extremes[random_bits() % 4];
    }
    return bytes;
}

void compare(const char *name, const void *found, const void *expected, std::size_t size) {
    ++compared;
    if (std::memcmp(found, expected, size) == 0) return;
    if (++different <= 20) std::printf("%s differs from its scalar form\n", name);
}

#define BINARY(name)                                                                 \
    BUSHEL_VECTORS void test_##name(const Bytes &a, const Bytes &b) {                \
        Bytes found, expected;                                                       \
        vectors::store(&found, vectors::name(vectors::load(&a), vectors::load(&b))); \
        scalar::store(&expected, scalar::name(scalar::load(&a), scalar::load(&b)));  \
        compare(#name, &found, &expected, 32);                                       \
    }
#define UNARY(name)                                                  \
    BUSHEL_VECTORS void test_##name(const Bytes &a, const Bytes &) { \
        Bytes found, expected;                                       \
        vectors::store(&found, vectors::name(vectors::load(&a)));    \
        scalar::store(&expected, scalar::name(scalar::load(&a)));    \
        compare(#name, &found, &expected, 32);                       \
    }
#define SHIFT(name, bits)                                                     \
    BUSHEL_VECTORS void test_##name##_##bits(const Bytes &a, const Bytes &) { \
        Bytes found, expected;                                                \
        vectors::store(&found, vectors::name<bits>(vectors::load(&a)));       \
        scalar::store(&expected, scalar::name<bits>(scalar::load(&a)));       \
        compare(#name, &found, &expected, 32);                                \
    }
#define OF_HALVES(name)                                                                        \
    BUSHEL_VECTORS void test_##name(const Bytes &a, const Bytes &b) {                          \
        Bytes found, expected;                                                                 \
        vectors::store(&found, vectors::name(vectors::load_half(&a), vectors::load_half(&b))); \
        scalar::store(&expected, scalar::name(scalar::load_half(&a), scalar::load_half(&b)));  \
        compare(#name, &found, &expected, 32);                                                 \
    }
#define WIDEN(name)                                                    \
    BUSHEL_VECTORS void test_##name(const Bytes &a, const Bytes &) {   \
        Bytes found, expected;                                         \
        vectors::store(&found, vectors::name(vectors::load_half(&a))); \
        scalar::store(&expected, scalar::name(scalar::load_half(&a))); \
        compare(#name, &found, &expected, 32);                         \
    }
#define TO_HALF(name)                                                  \
    BUSHEL_VECTORS void test_##name(const Bytes &a, const Bytes &) {   \
        Bytes found, expected;                                         \
        vectors::store_half(&found, vectors::name(vectors::load(&a))); \
        scalar::store_half(&expected, scalar::name(scalar::load(&a))); \
        compare(#name, &found, &expected, 16);                         \
    }

BINARY(lows)
BINARY(highs)
BINARY(bits_or)
BINARY(bits_and)
BINARY(add_8)
BINARY(add_16)
BINARY(subtract_16)
BINARY(add_32)
BINARY(subtract_32)
BINARY(add_neighbours_32)
BINARY(multiply_high_16)
BINARY(multiply_pairs_u8)
BINARY(multiply_pairs_16)
BINARY(multiply_32)
BINARY(narrow_32_to_16)
BINARY(narrow_16_to_8)
BINARY(interleave_low_16)
BINARY(interleave_high_16)
BINARY(interleave_low_64)
BINARY(interleave_high_64)
UNARY(quarters_0213)
UNARY(magnitude_16)
SHIFT(shift_left_16, 1)
SHIFT(shift_left_16, 3)
SHIFT(shift_left_16, 8)
SHIFT(shift_right_16, 1)
SHIFT(shift_right_u16, 2)
SHIFT(shift_right_u16, 4)
SHIFT(shift_right_32, 11)
SHIFT(shift_right_32, 16)
SHIFT(shift_right_32, 22)
OF_HALVES(interleave_16)
WIDEN(widen_u8_to_16)
WIDEN(widen_first_u8_to_32)
WIDEN(widen_last_u8_to_32)
TO_HALF(low)
TO_HALF(high)
TO_HALF(narrow_16_to_u8)

BUSHEL_VECTORS void test_multiply_16(const Bytes &a, const Bytes &b) {
    Bytes found, expected;
    vectors::store_half(&found, vectors::multiply_16(vectors::load_half(&a), vectors::load_half(&b)));
    scalar::store_half(&expected, scalar::multiply_16(scalar::load_half(&a), scalar::load_half(&b)));
    compare("multiply_16", &found, &expected, 16);
}

BUSHEL_VECTORS void test_stores(const Bytes &a, const Bytes &b) {
    std::uint8_t found[64] = {}, expected[64] = {};
    const vectors::Half half = vectors::load_half(&a);
    const scalar::Half scalar_half = scalar::load_half(&a);
    vectors::store_first_8_bytes(found, half), vectors::store_last_8_bytes(found + 8, half);
    scalar::store_first_8_bytes(expected, scalar_half), scalar::store_last_8_bytes(expected + 8, scalar_half);
    vectors::store_bytes_in_threes(found + 16, half, vectors::load_half(&b), vectors::load_half(b.values + 16));
    scalar::store_bytes_in_threes(expected + 16, scalar_half, scalar::load_half(&b), scalar::load_half(b.values + 16));
    compare("store", found, expected, sizeof found);
}

BUSHEL_VECTORS void test_constants(const Bytes &a, const Bytes &) {
    Bytes found, expected;
    vectors::store(&found, vectors::all_8(a.values[0])), scalar::store(&expected, scalar::all_8(a.values[0]));
    compare("all_8", &found, &expected, 32);
    std::int32_t value;
    std::memcpy(&value, a.values, sizeof value);
    vectors::store(&found, vectors::all_16(value >> 16)), scalar::store(&expected, scalar::all_16(value >> 16));
    compare("all_16", &found, &expected, 32);
    vectors::store(&found, vectors::all_32(value)), scalar::store(&expected, scalar::all_32(value));
    compare("all_32", &found, &expected, 32);
}

BUSHEL_VECTORS void test_masks(const Bytes &a, const Bytes &b) {
    const int byte = a.values[b.values[0] % 32];
    const std::uint32_t found = vectors::mask_of_byte(vectors::load(&a), byte);
    const std::uint32_t expected = scalar::mask_of_byte(scalar::load(&a), byte);
    compare("mask_of_byte", &found, &expected, sizeof found);
    Bytes digits;  // and the bytes beside them
    for (int i = 0; i < 32; ++i) digits.values[i] = static_cast<decltype(digits.values[i] + 0)>('0' - 3 + a.values[i] % 16);
    for (const Bytes &each : {a, digits}) {
        Bytes found_bytes, expected_bytes;
        const vectors::Vector are_digits = vectors::digits_8(vectors::load(&each));
        vectors::store(&found_bytes, are_digits);
        scalar::store(&expected_bytes, scalar::digits_8(scalar::load(&each)));
        compare("digits_8", &found_bytes, &expected_bytes, 32);
        const std::uint32_t masks[] = {vectors::mask_of(are_digits), scalar::mask_of(scalar::load(&expected_bytes))};
        compare("mask_of", &masks[0], &masks[1], sizeof masks[0]);
        vectors::store(&found_bytes, vectors::equal_8(vectors::load(&each), vectors::load(&b)));
        scalar::store(&expected_bytes, scalar::equal_8(scalar::load(&each), scalar::load(&b)));
        compare("equal_8", &found_bytes, &expected_bytes, 32);
    }
}

BUSHEL_VECTORS void test_searches(const Bytes &a, const Bytes &) {
    Bytes only_one = {};
    const auto at = a.values[0] % 33;
    if (at < 32) only_one.values[at] = 0xFF;
    const int results[] = {vectors::find_byte(vectors::load(&a), 0xFF),
                           vectors::find_byte(vectors::load(&only_one), 0xFF), vectors::is_zero(vectors::load(&a)),
                           vectors::is_zero(vectors::load(&only_one))};
    const int expected[] = {scalar::find_byte(scalar::load(&a), 0xFF), at, scalar::is_zero(scalar::load(&a)), at == 32};
    compare("find_byte or is_zero", results, expected, sizeof results);
}

}  // namespace

int main() {
    if (!supports(vectors_need)) {
        std::printf("this processor cannot run them\n");
        return 2;
    }
    using Test = void (*)(const Bytes &, const Bytes &);
    static constexpr Test tests[] = {
        test_masks,
        test_lows,
        test_highs,
        test_bits_or,
        test_bits_and,
        test_add_8,
        test_add_16,
        test_subtract_16,
        test_add_32,
        test_subtract_32,
        test_add_neighbours_32,
        test_multiply_high_16,
        test_multiply_pairs_u8,
        test_multiply_pairs_16,
        test_multiply_32,
        test_narrow_32_to_16,
        test_narrow_16_to_8,
        test_interleave_low_16,
        test_interleave_high_16,
        test_interleave_low_64,
        test_interleave_high_64,
        test_quarters_0213,
        test_magnitude_16,
        test_shift_left_16_1,
        test_shift_left_16_3,
        test_shift_left_16_8,
        test_shift_right_16_1,
        test_shift_right_u16_2,
        test_shift_right_u16_4,
        test_shift_right_32_11,
        test_shift_right_32_16,
        test_shift_right_32_22,
        test_interleave_16,
        test_widen_u8_to_16,
        test_widen_first_u8_to_32,
        test_widen_last_u8_to_32,
        test_low,
        test_high,
        test_narrow_16_to_u8,
        test_multiply_16,
        test_stores,
        test_constants,
        test_searches,
    };
    for (int round = 0; round < rounds; ++round) {
        const Bytes a = random_bytes(), b = random_bytes();
        for (const Test test : tests) test(a, b);
    }
    std::printf("%d comparisons, %d differences\n", compared, different);
    return different ? 1 : 0;
}
