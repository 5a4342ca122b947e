// Scalar code looks up tables. SIMD code folds by carry-less multiplication (V. Gopal et al.: "Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009). The constants of that paper are powers of x modulo the
// polynomial; they are computed below.
#include "files/crc32.hpp"

#include <array>
#include <cstring>

#include "common/simd.hpp"
#include "files/crc_tables.hpp"

namespace bushel {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320;  // bits reversed: bit 31 is x^0

constexpr CrcUpdate by_tables = CrcTables<polynomial>::update;

#ifdef BUSHEL_X86

// x^power modulo the polynomial, reflected, aligned as the multiplication needs it.
constexpr std::uint64_t power_of_x(unsigned power) {
    std::uint32_t value = 0x80000000;
    for (; power; --power) value = (value >> 1) ^ (value & 1 ? polynomial : 0);
    return std::uint64_t{value} << 1;
}

// The factors that move 16 bytes over `distance` bits.
struct Shift {
    std::uint64_t low, high;
};
constexpr Shift shift_over(unsigned distance) { return {power_of_x(distance + 32), power_of_x(distance - 32)}; }

static_assert(shift_over(512).low == 0x154442bd4 && shift_over(128).high == 0x0ccaa009e,
              "the constants of the Intel paper");

BUSHEL_PCLMUL inline __m128i load(const std::uint8_t *data) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(data));
}

BUSHEL_PCLMUL inline __m128i fold(__m128i sum, __m128i next, __m128i shift) {
    return _mm_xor_si128(next,
                         _mm_xor_si128(_mm_clmulepi64_si128(sum, shift, 0x00), _mm_clmulepi64_si128(sum, shift, 0x11)));
}

// `length` must be at least 64.
BUSHEL_PCLMUL std::uint32_t by_folding(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    constexpr Shift over_64 = shift_over(512), over_16 = shift_over(128);
    __m128i sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = load(data + 16 * i);
    sum[0] = _mm_xor_si128(sum[0], _mm_cvtsi32_si128(static_cast<int>(state)));
    data += 64, length -= 64;

    const __m128i far = _mm_set_epi64x(static_cast<long long>(over_64.high), static_cast<long long>(over_64.low));
    for (; length >= 64; data += 64, length -= 64) {
        for (int i = 0; i < 4; ++i) sum[i] = fold(sum[i], load(data + 16 * i), far);
    }
    const __m128i near = _mm_set_epi64x(static_cast<long long>(over_16.high), static_cast<long long>(over_16.low));
    for (int i = 1; i < 4; ++i) sum[0] = fold(sum[0], sum[i], near);
    for (; length >= 16; data += 16, length -= 16) sum[0] = fold(sum[0], load(data), near);

    // The remaining 16 bytes have the checksum of everything so far. The tables finish them and the bytes after them.
    std::uint8_t rest[16];
    _mm_storeu_si128(reinterpret_cast<__m128i *>(rest), sum[0]);
    return by_tables(data, length, by_tables(rest, 16, 0));
}

// The same with 32 bytes in one register. `length` must be at least 128.
BUSHEL_VPCLMUL_AVX2 inline __m256i load_pair(const std::uint8_t *data) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(data));
}

BUSHEL_VPCLMUL_AVX2 inline __m256i fold_pair(__m256i sum, __m256i next, __m256i shift) {
    return _mm256_xor_si256(
        next, _mm256_xor_si256(_mm256_clmulepi64_epi128(sum, shift, 0x00), _mm256_clmulepi64_epi128(sum, shift, 0x11)));
}

BUSHEL_VPCLMUL_AVX2 inline __m256i pair(Shift shift) {
    const auto high = static_cast<long long>(shift.high), low = static_cast<long long>(shift.low);
    return _mm256_set_epi64x(high, low, high, low);
}

BUSHEL_VPCLMUL_AVX2 std::uint32_t by_folding_pairs(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    __m256i sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = load_pair(data + 32 * i);
    sum[0] = _mm256_xor_si256(sum[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state))));
    data += 128, length -= 128;

    const __m256i far = pair(shift_over(1024)), near = pair(shift_over(256));
    for (; length >= 128; data += 128, length -= 128) {
        for (int i = 0; i < 4; ++i) sum[i] = fold_pair(sum[i], load_pair(data + 32 * i), far);
    }
    for (int i = 1; i < 4; ++i) sum[0] = fold_pair(sum[0], sum[i], near);
    for (; length >= 32; data += 32, length -= 32) sum[0] = fold_pair(sum[0], load_pair(data), near);

    alignas(32) std::uint8_t rest[32];
    _mm256_store_si256(reinterpret_cast<__m256i *>(rest), sum[0]);
    return by_tables(data, length, by_tables(rest, 32, 0));
}

// The same with 64 bytes in one register.
BUSHEL_VPCLMUL inline __m512i fold_wide(__m512i sum, __m512i next, __m512i shift) {
    return _mm512_ternarylogic_epi64(next, _mm512_clmulepi64_epi128(sum, shift, 0x00),
                                     _mm512_clmulepi64_epi128(sum, shift, 0x11), 0x96);
}

BUSHEL_VPCLMUL inline __m512i wide(Shift shift) {
    const auto high = static_cast<long long>(shift.high), low = static_cast<long long>(shift.low);
    return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

// `length` must be at least 256.
BUSHEL_VPCLMUL std::uint32_t by_wide_folding(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    __m512i sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = _mm512_loadu_si512(data + 64 * i);
    sum[0] = _mm512_xor_si512(sum[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
    data += 256, length -= 256;

    const __m512i far = wide(shift_over(2048)), near = wide(shift_over(512));
    for (; length >= 256; data += 256, length -= 256) {
        for (int i = 0; i < 4; ++i) sum[i] = fold_wide(sum[i], _mm512_loadu_si512(data + 64 * i), far);
    }
    for (int i = 1; i < 4; ++i) sum[0] = fold_wide(sum[0], sum[i], near);
    for (; length >= 64; data += 64, length -= 64) sum[0] = fold_wide(sum[0], _mm512_loadu_si512(data), near);

    alignas(64) std::uint8_t rest[64];
    _mm512_store_si512(rest, sum[0]);
    state = by_folding(rest, 64, 0);
    return length >= 64 ? by_folding(data, length, state) : by_tables(data, length, state);
}

#endif

#ifdef BUSHEL_ARM

// The processor's instructions for this polynomial (Arm Architecture Reference Manual: CRC32X, CRC32B).
BUSHEL_ARM_CRC std::uint32_t by_instructions(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    for (; length >= 8; data += 8, length -= 8) {
        std::uint64_t word;
        std::memcpy(&word, data, sizeof word);
        state = __crc32d(state, word);
    }
    for (; length; ++data, --length) state = __crc32b(state, *data);
    return state;
}

#endif

// The fastest functions for at least 64 bytes, and for at least 256.
struct Updates {
    CrcUpdate medium = select<CrcUpdate>({
#ifdef BUSHEL_X86
        {Simd::pclmul, by_folding},
#endif
#ifdef BUSHEL_ARM
        {Simd::arm_crc, by_instructions},
#endif
        {Simd::scalar, by_tables},
    });
    CrcUpdate large = select<CrcUpdate>({
#ifdef BUSHEL_X86
        {Simd::vpclmul, by_wide_folding},
        {Simd::vpclmul_avx2, by_folding_pairs},
#endif
        {Simd::scalar, medium},
    });
};

// The product of two polynomials modulo the polynomial of the checksum.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (std::uint32_t bit = 0x80000000; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = (b >> 1) ^ (b & 1 ? polynomial : 0);
    }
    return product;
}

// x^(2^i): powers repeat after 2^32 - 1, so 32 of them are all.
constexpr std::array<std::uint32_t, 32> make_squares() {
    std::array<std::uint32_t, 32> squares{};
    squares[0] = 0x40000000;
    for (std::size_t i = 1; i < 32; ++i) squares[i] = multiply(squares[i - 1], squares[i - 1]);
    return squares;
}

constexpr std::array<std::uint32_t, 32> squares = make_squares();

}  // namespace

std::uint32_t join_crc32(std::uint32_t beginning, std::uint32_t rest, std::uint64_t length) {
    for (std::size_t i = 3; length; ++i, length >>= 1) {  // 2^3 bits in a byte
        if (length & 1) beginning = multiply(squares[i % 32], beginning);
    }
    return beginning ^ rest;
}

std::uint32_t crc32(const std::uint8_t *data, std::size_t length, std::uint32_t value) {
    static const Updates updates;
    const CrcUpdate update = length >= 256 ? updates.large : length >= 64 ? updates.medium : by_tables;
    return ~update(data, length, ~value);
}

}  // namespace bushel
