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
// Bytes before it that may be read, too.
constexpr std::ptrdiff_t number_room_before = 33;

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
        PowerOfTen &power = powers.of[digits];
        power.value = powers.of[digits - 1].value * 10;
        while (power.bits < 64 && power.value >> power.bits) ++power.bits;
        std::uint64_t rest = std::uint64_t{1} << (power.bits - 1);  // the long division of a power of two
        for (int bit = 0; bit < 128; ++bit) {
            const bool one = 2 * rest >= power.value;
            rest = 2 * rest - (one ? power.value : 0);
            power.high = power.high << 1 | power.low >> 63;
            power.low = power.low << 1 | std::uint64_t{one};
        }
    }
    return powers;
}

constexpr PowersOfTen powers = powers_of_ten();

constexpr std::uint64_t each_byte = 0x0101010101010101;

// The least integers with 1, 2, ... 8 digits.
constexpr std::int64_t least_of_size[] = {0, 0, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

// Join eight digits, which are bytes of 0 to 9, the first one lowest: pairs, then pairs of pairs.
inline std::uint64_t joined_digits(std::uint64_t eight) {
    eight = (eight * (10 * 0x100 + 1) >> 8) & 0x00FF00FF00FF00FF;
    eight = (eight * (100 * 0x10000 + 1) >> 16) & 0x0000FFFF0000FFFF;
    return eight * (10000 * 0x100000000 + 1) >> 32;
}

inline std::uint64_t eight_bytes(const std::uint8_t *at) {
    std::uint64_t eight;
    std::memcpy(&eight, at, 8);
    return eight;
}

// The number of the first digits of a text, 1 to 8. 8 bytes are read.
inline std::uint64_t first_digits(const std::uint8_t *at, std::int64_t count) {
    return joined_digits((eight_bytes(at) & 15 * each_byte) << (-8 * count & 63));  // zeros before the first digit
}

// Bits that keep digits: load(digit_bits + n) keeps the last n bytes, load(digit_bits + 32 + n) the other bytes.
struct DigitBits {
    std::uint8_t of[96] = {};
};
constexpr DigitBits made_digit_bits() {
    DigitBits bits;
    for (int i = 32; i < 64; ++i) bits.of[i] = 15;
    return bits;
}
constexpr DigitBits digit_bits = made_digit_bits();

// Join 32 digits. The first 13 are 0.
BUSHEL_VECTORS_INLINE std::uint64_t joined_digits(vectors::Vector digits) {
    using namespace vectors;
    const Vector pairs = multiply_pairs_u8(digits, all_16(10 | 1 << 8));
    const Vector fours = multiply_pairs_16(pairs, all_32(100 | 1 << 16));
    const Vector eights = multiply_pairs_16(narrow_32_to_16(fours, fours), all_32(10000 | 1 << 16));
    std::uint32_t parts[8];  // each half has two, twice
    store(parts, eights);
    return parts[1] * powers.of[16].value + parts[4] * powers.of[8].value + parts[5];
}

// The number of the last digits before a place, at most 19. 32 bytes are read.
BUSHEL_VECTORS_INLINE std::uint64_t last_digits(const std::uint8_t *last, std::int64_t count) {
    return joined_digits(vectors::bits_and(vectors::load(last - 32), vectors::load(digit_bits.of + count)));
}

// The same of digits with a point before the last `decimals` of them. 33 bytes are read.
BUSHEL_VECTORS_INLINE std::uint64_t last_digits(const std::uint8_t *last, std::int64_t count, std::int64_t decimals) {
    using namespace vectors;
    const Vector after = bits_and(load(last - 32), load(digit_bits.of + decimals));
    const Vector before = bits_and(load(last - 33), load(digit_bits.of + 32 + decimals));
    return joined_digits(bits_and(bits_or(before, after), load(digit_bits.of + count)));
}

inline std::uint64_t bits_of(double real) {
    std::uint64_t bits;
    std::memcpy(&bits, &real, sizeof bits);
    return bits;
}

// Find the bits of the real number that is nearest to value / 10^digits, where `value` is not 0; false if that takes more
// than one multiplication with the reciprocal, as the quotient may be in the middle between two real numbers.
inline bool nearest_quotient(std::uint64_t value, std::int64_t digits, std::uint64_t &nearest) {
    __extension__ using Wide = unsigned __int128;
    const PowerOfTen &power = powers.of[digits];
    const int zeros = __builtin_clzll(value);
    const std::uint64_t dividend = value << zeros;
    const Wide product = static_cast<Wide>(dividend) * power.high;
    const auto more = static_cast<std::uint64_t>(static_cast<Wide>(dividend) * power.low >> 64);
    const std::uint64_t low = static_cast<std::uint64_t>(product) + more;
    const std::uint64_t high = static_cast<std::uint64_t>(product >> 64) + (low < more);
    if (low + 2 < 4) return false;  // the reciprocal is too small by less than its last bit
    const double first = static_cast<double>(static_cast<std::int64_t>(high >> 1 | 1));  // others follow; rounds once
    nearest = bits_of(first) + (static_cast<std::uint64_t>(2 - zeros - power.bits) << 52);  // times a power of two
    return true;
}

// Find the bits of the real number that is nearest to at most 19 digits before a place, with a point before the decimals;
// false if that takes more than one multiplication. 33 bytes are read.
BUSHEL_VECTORS_INLINE bool real_of(const std::uint8_t *last, std::int64_t count, std::int64_t decimals,
                                   std::uint64_t &bits) {
    const std::uint64_t value = last_digits(last, count, decimals);
    if (count > 15) return value && nearest_quotient(value, decimals, bits);
    bits = bits_of(static_cast<double>(value) / static_cast<double>(powers.of[decimals].value));  // exact numbers: one rounding
    return true;
}

}  // namespace fast_numbers

// A number that begins at a known byte. Functions that are inlined fill it, so it stays in registers.
struct NumberFound {
    std::int64_t size, bits;
    ValueKind kind;
};

// Parse the number at the start of a text; false if it is not a usual one. Bytes around it can be read: 33 before its
// end, and 64 from its start on.
BUSHEL_VECTORS_INLINE bool usual_number(const std::uint8_t *const begin, NumberFound &number) {
    using namespace fast_numbers;
    if (is_digit(*begin) && !is_digit(begin[1]) && begin[1] != '.' && (begin[1] | 0x20) != 'e') {  // known without a wait
        number.size = 1;
        number.bits = *begin - '0';
        number.kind = ValueKind::integer;
        return true;
    }
    const int negative = *begin == '-';
    const std::uint8_t *const at = begin + negative;
    const std::uint64_t others = ~std::uint64_t{vectors::mask_of(vectors::digits_8(vectors::load(begin)))} >> negative;
    const int whole = __builtin_ctzll(others);
    if (!whole || (whole > 1 && *at == '0') || whole >= most_digits) return false;
    const std::uint8_t stop = at[whole];
    if (stop == '.') {
        const int end = __builtin_ctzll(others & (others - 1)), decimals = end - whole - 1;
        if (!decimals || end > most_digits + 1 || (at[end] | 0x20) == 'e') return false;
        std::uint64_t bits;
        if (!real_of(at + end, end - 1, decimals, bits)) return false;
        number.size = negative + end;
        number.bits = static_cast<std::int64_t>(bits | std::uint64_t(negative) << 63);
        number.kind = ValueKind::real;
        return true;
    }
    if ((stop | 0x20) == 'e') return false;
    const auto value = static_cast<std::int64_t>(whole <= 8 ? first_digits(at, whole) : last_digits(at + whole, whole));
    number.size = negative + whole;
    number.bits = negative ? -value : value;
    number.kind = ValueKind::integer;
    return true;
}

// Parse the number at the start of a text; false if it does not begin with one. The bytes from `data` on can be read.
BUSHEL_VECTORS_INLINE bool fast_number(const std::uint8_t *data, const std::uint8_t *at, const std::uint8_t *end,
                                       NumberFound &number) {
    if (at - data >= number_room_before && end - at >= number_room && usual_number(at, number)) return true;
    const ParsedNumber parsed = parse_number(at, end);
    number.size = static_cast<std::int64_t>(parsed.size);
    number.bits = parsed.bits;
    number.kind = parsed.kind;
    return parsed.size;
}

// The functions below parse the text before `last`, which is not empty, as a number; false if it is not a usual number of
// that kind. 33 bytes before `last` can be read.

// An integer of at most 8 digits.
inline bool short_integer(const std::uint8_t *last, std::int64_t size, std::int64_t &value) {
    using namespace fast_numbers;
    const std::int64_t negative = last[-size] == '-', count = size - negative;
    if (static_cast<std::uint64_t>(count - 1) >= 8) return false;
    const std::int64_t unused = -8 * count & 63;  // bits
    const std::uint64_t eight = (eight_bytes(last - 8) ^ '0' * each_byte) >> unused << unused;
    if (((eight + (0x80 - 10) * each_byte) | eight) & 0x80 * each_byte) return false;
    const auto number = static_cast<std::int64_t>(joined_digits(eight));
    value = (number ^ -negative) + negative;
    return number >= least_of_size[count];
}

// An integer of 9 to 18 digits.
BUSHEL_VECTORS_INLINE bool long_integer(const std::uint8_t *last, std::int64_t size, std::int64_t &value) {
    using namespace fast_numbers;
    const std::int64_t negative = last[-size] == '-', count = size - negative;
    if (count < 9 || count > 18 || last[-count] == '0') return false;
    if (~vectors::mask_of(vectors::digits_8(vectors::load(last - 32))) >> (32 - count)) return false;
    const auto number = static_cast<std::int64_t>(last_digits(last, count));
    value = (number ^ -negative) + negative;
    return true;
}

// An integer of at most 18 digits.
BUSHEL_VECTORS_INLINE bool usual_integer(const std::uint8_t *last, std::int64_t size, std::int64_t &value) {
    return short_integer(last, size, value) || long_integer(last, size, value);
}

// A real number with at most 19 digits, without an exponent.
BUSHEL_VECTORS_INLINE bool usual_real(const std::uint8_t *last, std::int64_t size, std::int64_t &number) {
    using namespace fast_numbers;
    const std::int64_t negative = last[-size] == '-', count = size - negative;
    if (count < 3 || count > most_digits + 1) return false;
    const std::uint32_t others = ~vectors::mask_of(vectors::digits_8(vectors::load(last - 32))) >> (32 - count);
    if (!others || (others & (others - 1))) return false;
    const std::int64_t whole = __builtin_ctz(others), decimals = count - whole - 1;
    if (!whole || !decimals || last[-decimals - 1] != '.' || (whole > 1 && last[-count] == '0')) return false;
    std::uint64_t bits;
    if (!real_of(last, count - 1, decimals, bits)) return false;
    number = static_cast<std::int64_t>(bits | static_cast<std::uint64_t>(negative) << 63);
    return true;
}

}  // namespace bushel
