// Numbers in text with vectors: the usual ones, without a loop or a branch for each digit. parse_number of line_values.cpp
// is the reference, which parses the others.
#pragma once
#include <cstdint>
#include <cstring>

#include "common/vectors.hpp"
#include "scans/lines.hpp"

namespace bushel {

// Bytes that may be read from the start of a number on.
constexpr std::ptrdiff_t number_room = 64;

namespace fast_numbers {

inline bool is_digit(std::uint8_t byte) { return static_cast<std::uint8_t>(byte - '0') < 10; }

constexpr int most_digits = 19, most_decimals = 18;

// 10^digits, how many bits it has, and its reciprocal: the first 128 bits of 1 / 10^digits.
struct PowerOfTen {
    std::uint64_t value = 1, high = 0, low = 0;
    int bits = 1;
};

struct PowersOfTen {
    PowerOfTen of[most_decimals + 1];
};

constexpr PowersOfTen powers_of_ten() {
    PowersOfTen powers;
    for (int digits = 1; digits <= most_decimals; ++digits) {
        PowerOfTen &own = powers.of[digits];
        own.value = powers.of[digits - 1].value * 10;
        while (own.bits < 64 && own.value >> own.bits) ++own.bits;
        std::uint64_t rest = std::uint64_t{1} << (own.bits - 1);  // the long division of a power of two
        for (int bit = 0; bit < 128; ++bit) {
            const bool one = 2 * rest >= own.value;
            rest = 2 * rest - (one ? own.value : 0);
            own.high = own.high << 1 | own.low >> 63;
            own.low = own.low << 1 | std::uint64_t{one};
        }
    }
    return powers;
}

constexpr PowersOfTen powers = powers_of_ten();

// The number of the first digits of a text, at most eight: pairs of digits become a number, then pairs of these.
inline std::uint64_t first_digits(const std::uint8_t *at, int count) {
    std::uint64_t eight;
    std::memcpy(&eight, at, 8);
    eight = count ? eight << (64 - 8 * count) : 0;  // the bytes before the first digit are zeros
    eight &= 0x0F0F0F0F0F0F0F0F;
    eight = (eight * 10 + (eight >> 8)) & 0x00FF00FF00FF00FF;
    eight = (eight * 100 + (eight >> 16)) & 0x0000FFFF0000FFFF;
    return (eight * 10000 + (eight >> 32)) & 0xFFFFFFFF;
}

// The number of up to 19 digits. 24 bytes are read.
inline std::uint64_t number_of(const std::uint8_t *at, int count) {
    if (count <= 8) return first_digits(at, count);
    const int second = count < 16 ? count - 8 : 8, third = count - 8 - second;
    const std::uint64_t first = first_digits(at, 8) * powers.of[second].value + first_digits(at + 8, second);
    return first * powers.of[third].value + first_digits(at + 16, third);
}

inline double power_of_two(int exponent) {
    const std::uint64_t bits = static_cast<std::uint64_t>(1023 + exponent) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// Find the real number that is nearest to value / 10^digits, where `value` is not 0; false if that takes more than one
// multiplication with the reciprocal, as the quotient may lie in the middle between two real numbers.
inline bool nearest_quotient(std::uint64_t value, int digits, double &nearest) {
    __extension__ using Wide = unsigned __int128;
    const PowerOfTen &power = powers.of[digits];
    const int zeros = __builtin_clzll(value);
    const std::uint64_t dividend = value << zeros;
    const Wide product = static_cast<Wide>(dividend) * power.high + (static_cast<Wide>(dividend) * power.low >> 64);
    if (static_cast<std::uint64_t>(product) + 2 < 4) return false;  // the reciprocal is too small by less than its last bit
    const auto first = static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 64) >> 1 | 1);  // others follow
    nearest = static_cast<double>(first) * power_of_two(2 - zeros - power.bits);  // the conversion rounds, once
    return true;
}

}  // namespace fast_numbers

// A number that begins at a known byte. Functions that are inlined fill it, so it stays in registers.
struct NumberFound {
    std::int64_t size, bits;
    ValueKind kind;
};

// Parse the number at the start of a text of at least 64 bytes; false if it is not a usual one.
BUSHEL_VECTORS_INLINE bool usual_number(const std::uint8_t *const begin, NumberFound &found) {
    using namespace fast_numbers;
    if (is_digit(*begin) && !is_digit(begin[1]) && begin[1] != '.' && (begin[1] | 0x20) != 'e') {  // known without a wait
        found.size = 1;
        found.bits = *begin - '0';
        found.kind = ValueKind::integer;
        return true;
    }
    const int negative = *begin == '-';
    const std::uint8_t *const at = begin + negative;
    const std::uint64_t others = ~std::uint64_t{vectors::mask_of(vectors::digits_8(vectors::load(begin)))} >> negative;
    const int whole = __builtin_ctzll(others);
    if (!whole || (whole > 1 && *at == '0') || whole >= most_digits) return false;
    const std::uint8_t stop = at[whole];
    if (stop == '.') {
        const int end = __builtin_ctzll(others & (others - 1)), digits = end - whole - 1;
        if (!digits || digits > most_decimals || end > most_digits + 1 || (at[end] | 0x20) == 'e') return false;
        const std::uint64_t value = number_of(at, whole) * powers.of[digits].value + number_of(at + whole + 1, digits);
        double real;
        if (end <= 16) {  // both numbers are real numbers exactly, so the division rounds once
            real = static_cast<double>(value) / static_cast<double>(powers.of[digits].value);
        } else if (!value || !nearest_quotient(value, digits, real)) {
            return false;
        }
        std::uint64_t bits;
        std::memcpy(&bits, &real, sizeof bits);
        found.size = negative + end;
        found.bits = static_cast<std::int64_t>(bits | std::uint64_t(negative) << 63);
        found.kind = ValueKind::real;
        return true;
    }
    if ((stop | 0x20) == 'e') return false;
    const auto value = static_cast<std::int64_t>(number_of(at, whole));
    found.size = negative + whole;
    found.bits = negative ? -value : value;
    found.kind = ValueKind::integer;
    return true;
}

// Parse the number at the start of a text; false if it does not begin with one.
BUSHEL_VECTORS_INLINE bool fast_number(const std::uint8_t *at, const std::uint8_t *end, NumberFound &found) {
    if (end - at >= number_room && usual_number(at, found)) return true;
    const ParsedNumber number = parse_number(at, end);
    found.size = static_cast<std::int64_t>(number.size);
    found.bits = number.bits;
    found.kind = number.kind;
    return number.size;
}

}  // namespace bushel
