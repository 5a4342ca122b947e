// Values in lines: numbers, the ends of strings and of nested values.
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "scans/lines.hpp"

#if defined(__APPLE__)
#include <xlocale.h>
#endif

#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE >= 12  // older ones call strtod
#define BUSHEL_FROM_CHARS
#endif

namespace bushel {

namespace {

constexpr double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr std::uint64_t largest_exact = std::uint64_t{1} << 53;
constexpr std::ptrdiff_t most_digits = 19;  // of a number that fits 64 bits, whichever they are

inline bool is_digit(std::uint8_t byte) { return byte >= '0' && byte <= '9'; }

// Take digits, up to the first byte that is not a digit, and return its address. Numbers of 2^64 and more wrap.
inline const std::uint8_t *take_digits(const std::uint8_t *at, const std::uint8_t *end, std::uint64_t &value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; end - at >= 8; at += 8) {  // eight at a time: pairs of digits become a number, then pairs of these
        std::uint64_t eight;
        std::memcpy(&eight, at, 8);
        if ((eight & 0xF0F0F0F0F0F0F0F0) != 0x3030303030303030) break;
        if (((eight + 0x0606060606060606) & 0xF0F0F0F0F0F0F0F0) != 0x3030303030303030) break;
        eight &= 0x0F0F0F0F0F0F0F0F;
        eight = (eight * 10 + (eight >> 8)) & 0x00FF00FF00FF00FF;
        eight = (eight * 100 + (eight >> 16)) & 0x0000FFFF0000FFFF;
        value = value * 100000000 + ((eight * 10000 + (eight >> 32)) & 0xFFFFFFFF);
    }
#endif
    for (; at < end && is_digit(*at); ++at) value = value * 10 + (*at - std::uint64_t{'0'});
    return at;
}

std::int64_t bits_of(double number) {
    std::int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

// The nearest number, in every locale of the process.
double nearest_real(const std::uint8_t *begin, std::size_t size) {
#if defined(BUSHEL_FROM_CHARS)
    double real;
    const auto *const text_begin = reinterpret_cast<const char *>(begin);
    if (std::from_chars(text_begin, text_begin + size, real).ec == std::errc()) return real;  // else it is out of range
#endif
    const std::string text(reinterpret_cast<const char *>(begin), size);
#if defined(__GLIBC__) || defined(__APPLE__)
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    if (plain) return strtod_l(text.c_str(), nullptr, plain);
#endif
    return std::strtod(text.c_str(), nullptr);  // musl has no locale with another decimal point
}

// Whether digits that do not start with 0 make a number below 2^64.
bool fits_uint64(const std::uint8_t *digits, const std::uint8_t *end) {
    return end - digits < 20 || (end - digits == 20 && std::memcmp(digits, "18446744073709551615", 20) <= 0);
}

ParsedNumber word(const std::uint8_t *at, const std::uint8_t *end, const char *text, double value) {
    const std::size_t size = std::strlen(text);
    if (static_cast<std::size_t>(end - at) < size || std::memcmp(at, text, size)) return {};
    return {size, ValueKind::real, bits_of(value)};
}

ParsedNumber integer(std::size_t size, bool negative, std::uint64_t value, bool fits) {
    constexpr std::uint64_t limit = std::uint64_t{1} << 63;
    if (!fits || (negative && value > limit)) return {size, ValueKind::large, 0};
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
    const std::uint8_t *const digits = at;
    at = take_digits(at, end, value);
    if (*digits == '0' && at - digits > 1) return {};  // in JSON, no number begins like this
    bool fits = at - digits <= most_digits;
    if (at == end || (*at != '.' && *at != 'e' && *at != 'E')) {
        if (!fits) fits = fits_uint64(digits, at);
        return integer(static_cast<std::size_t>(at - begin), negative, value, fits);
    }
    std::int64_t exponent = 0;
    if (*at == '.') {
        const std::uint8_t *const fraction = ++at;
        at = take_digits(at, end, value);
        fits = at - digits - 1 <= most_digits;
        if (at == fraction) return {};
        exponent = -(at - fraction);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        ++at;
        const bool down = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) ++at;
        const std::uint8_t *const first = at;
        std::int64_t power = 0;
        for (; at < end && is_digit(*at); ++at) power = power < 100000 ? power * 10 + (*at - '0') : power;
        if (at == first) return {};
        exponent += down ? -power : power;
    }
    const auto size = static_cast<std::size_t>(at - begin);
    double real;
    if (fits && value <= largest_exact && exponent >= -22 && exponent <= 22) {  // both numbers are exact: one rounding
        real = static_cast<double>(value);
        real = exponent < 0 ? real / powers_of_ten[-exponent] : real * powers_of_ten[exponent];
        if (negative) real = -real;
    } else {
        real = nearest_real(begin, size);
        if (std::isinf(real)) return {size, ValueKind::large, 0};
    }
    return {size, ValueKind::real, bits_of(real)};
}

const std::uint8_t *find_either(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t a, std::uint8_t b) {
    while (at < end && *at != a && *at != b) ++at;
    return at;
}

const std::uint8_t *end_of_nested(const std::uint8_t *at, const std::uint8_t *end) {
    std::int64_t depth = 0;
    bool in_string = false;
    while (at < end) {
        const std::uint8_t byte = *at++;
        if (in_string) {
            if (byte == '\\' && at < end) ++at;
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

}  // namespace bushel
