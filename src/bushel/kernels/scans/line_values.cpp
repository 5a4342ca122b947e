// Values in lines: numbers, the ends of strings and of nested values.
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "common/simd.hpp"
#include "scans/lines.hpp"

#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace bushel {

namespace {

constexpr double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr std::uint64_t largest_exact = std::uint64_t{1} << 53;

inline bool is_digit(std::uint8_t byte) { return byte >= '0' && byte <= '9'; }

std::int64_t bits_of(double number) {
    std::int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

// The number as the C library reads it, whatever the locale of the process.
double slow_real(const std::uint8_t *begin, std::size_t size) {
    const std::string text(reinterpret_cast<const char *>(begin), size);
#if defined(__GLIBC__) || defined(__APPLE__)
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    if (plain) return strtod_l(text.c_str(), nullptr, plain);
#endif
    return std::strtod(text.c_str(), nullptr);  // musl has no locale with another decimal point
}

ParsedNumber word(const std::uint8_t *at, const std::uint8_t *end, const char *text, double value) {
    const std::size_t size = std::strlen(text);
    if (static_cast<std::size_t>(end - at) < size || std::memcmp(at, text, size)) return {};
    return {size, ValueKind::real, bits_of(value)};
}

ParsedNumber integer(std::size_t size, bool negative, std::uint64_t value, bool fits) {
    constexpr std::uint64_t limit = std::uint64_t{1} << 63;
    if (!fits || (negative && value > limit)) return {size, ValueKind::large_integer, 0};
    if (negative) return {size, ValueKind::integer, static_cast<std::int64_t>(~value + 1)};
    const auto bits = static_cast<std::int64_t>(value);
    return {size, value < limit ? ValueKind::integer : ValueKind::unsigned_integer, bits};
}

}  // namespace

ParsedNumber parse_number(const std::uint8_t *const begin, const std::uint8_t *const end) {
    const std::uint8_t *at = begin;
    const bool negative = at < end && *at == '-';
    if (negative) ++at;
    if (at == end) return {};
    if (*at == 'N' && !negative) return word(begin, end, "NaN", std::numeric_limits<double>::quiet_NaN());
    if (*at == 'I') {
        const double infinity = std::numeric_limits<double>::infinity();
        return negative ? word(begin, end, "-Infinity", -infinity) : word(begin, end, "Infinity", infinity);
    }
    if (!is_digit(*at)) return {};
    std::uint64_t value = 0;
    bool fits = true;
    if (*at == '0') {
        ++at;
        if (at < end && is_digit(*at)) return {};  // of JSON, no number begins so
    } else {
        for (; at < end && is_digit(*at); ++at) {
            const std::uint64_t digit = *at - std::uint64_t{'0'};
            fits = fits && (value < 1844674407370955161u || (value == 1844674407370955161u && digit <= 5));
            value = value * 10 + digit;
        }
    }
    if (at == end || (*at != '.' && *at != 'e' && *at != 'E')) {
        return integer(static_cast<std::size_t>(at - begin), negative, value, fits);
    }
    std::int64_t exponent = 0;
    if (*at == '.') {
        const std::uint8_t *const fraction = ++at;
        for (; at < end && is_digit(*at); ++at) {
            const std::uint64_t digit = *at - std::uint64_t{'0'};
            fits = fits && value < 1844674407370955161u;
            value = value * 10 + digit;
        }
        if (at == fraction) return {};
        exponent = -(at - fraction);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        ++at;
        const bool down = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) ++at;
        const std::uint8_t *const digits = at;
        std::int64_t power = 0;
        for (; at < end && is_digit(*at); ++at) power = power < 100000 ? power * 10 + (*at - '0') : power;
        if (at == digits) return {};
        exponent += down ? -power : power;
    }
    const auto size = static_cast<std::size_t>(at - begin);
    double real;
    if (fits && value <= largest_exact && exponent >= -22 && exponent <= 22) {  // both numbers are exact: one rounding
        real = static_cast<double>(value);
        real = exponent < 0 ? real / powers_of_ten[-exponent] : real * powers_of_ten[exponent];
        if (negative) real = -real;
    } else {
        real = slow_real(begin, size);
    }
    return {size, ValueKind::real, bits_of(real)};
}

namespace {

const std::uint8_t *find_either_scalar(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t a,
                                       std::uint8_t b) {
    while (at < end && *at != a && *at != b) ++at;
    return at;
}

// Go through bytes of nested values one by one until `stop`, which is passed by one byte at most.
struct Nesting {
    std::int64_t depth = 0;
    bool in_string = false;

    // Return the end of the value if it is reached, else nullptr; `at` becomes the next byte.
    const std::uint8_t *step(const std::uint8_t *&at, const std::uint8_t *stop) {
        while (at < stop) {
            const std::uint8_t byte = *at++;
            if (in_string) {
                if (byte == '\\') ++at;
                if (byte == '"') in_string = false;
            } else if (byte == '"') {
                in_string = true;
            } else if (byte == '{' || byte == '[') {
                ++depth;
            } else if ((byte == '}' || byte == ']') && --depth == 0) {
                return at;
            }
        }
        return nullptr;
    }
};

const std::uint8_t *end_of_nested_scalar(const std::uint8_t *at, const std::uint8_t *end) {
    Nesting nesting;
    const std::uint8_t *const found = nesting.step(at, end);
    return found;
}

#ifdef BUSHEL_X86

BUSHEL_AVX2_INLINE std::uint32_t equal_mask(__m256i bytes, int byte) {
    return static_cast<std::uint32_t>(
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(static_cast<char>(byte)))));
}

BUSHEL_AVX2 const std::uint8_t *find_either_avx2(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t a,
                                                 std::uint8_t b) {
    for (; end - at >= 32; at += 32) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
        const std::uint32_t found = equal_mask(bytes, a) | equal_mask(bytes, b);
        if (found) return at + __builtin_ctz(found);
    }
    return find_either_scalar(at, end, a, b);
}

// Bit i is set if an odd number of the bits up to i is.
BUSHEL_AVX2_INLINE std::uint32_t odd_before(std::uint32_t bits) {
    for (int shift = 1; shift < 32; shift *= 2) bits ^= bits << shift;
    return bits;
}

BUSHEL_AVX2 const std::uint8_t *end_of_nested_avx2(const std::uint8_t *at, const std::uint8_t *end) {
    Nesting nesting;
    const __m256i small = _mm256_set1_epi8(0x20);
    while (end - at >= 32) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
        const std::uint32_t quotes = equal_mask(bytes, '"');
        if (equal_mask(bytes, '\\')) {
            if (const std::uint8_t *const found = nesting.step(at, at + 32)) return found;
            continue;
        }
        const std::uint32_t in_string = odd_before(quotes) ^ (nesting.in_string ? ~0u : 0u);
        const __m256i braces = _mm256_or_si256(bytes, small);  // '[' becomes '{', and ']' becomes '}'
        const std::uint32_t opened = equal_mask(braces, '{') & ~in_string;
        const std::uint32_t closed = equal_mask(braces, '}') & ~in_string;
        const int closes = __builtin_popcount(closed);
        if (closes < nesting.depth) {
            nesting.depth += __builtin_popcount(opened) - closes;
            nesting.in_string = in_string >> 31;
            at += 32;
        } else if (const std::uint8_t *const found = nesting.step(at, at + 32)) {
            return found;
        }
    }
    return nesting.step(at, end);
}

#endif

}  // namespace

const std::uint8_t *find_either(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t a, std::uint8_t b) {
    using Function = decltype(&find_either_scalar);
    static const Function function = select<Function>({
#ifdef BUSHEL_X86
        {Simd::avx2, find_either_avx2},
#endif
        {Simd::scalar, find_either_scalar}});
    return function(at, end, a, b);
}

const std::uint8_t *end_of_nested(const std::uint8_t *at, const std::uint8_t *end) {
    using Function = decltype(&end_of_nested_scalar);
    static const Function function = select<Function>({
#ifdef BUSHEL_X86
        {Simd::avx2, end_of_nested_avx2},
#endif
        {Simd::scalar, end_of_nested_scalar}});
    const std::uint8_t *const found = function(at, end);
    return found && found <= end ? found : nullptr;
}

}  // namespace bushel
