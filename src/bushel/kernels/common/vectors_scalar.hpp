// The operations of common/vectors.hpp in scalar code: what they mean, and the reference for the others.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bushel::scalar {

struct Half {
    std::uint8_t bytes[16];
};

template <typename Element>
struct Elements {
    static constexpr std::size_t count = 16 / sizeof(Element);

    Element value[count];

    explicit Elements(Half a) { std::memcpy(value, a.bytes, 16); }
};

// Return the half whose element i is function(i).
template <typename Element, typename Function>
inline Half made(Function function) {
    Half out;
    for (std::size_t i = 0; i < 16 / sizeof(Element); ++i) {
        const auto element = static_cast<Element>(function(i));
        std::memcpy(out.bytes + i * sizeof element, &element, sizeof element);
    }
    return out;
}

// Return the half whose elements are function(element of a, element of b).
template <typename Element, typename Function>
inline Half mapped(Half a, Half b, Function function) {
    const Elements<Element> first(a), second(b);
    return made<Element>([&](std::size_t i) { return function(first.value[i], second.value[i]); });
}

inline Half load_half(const void *from) {
    Half out;
    std::memcpy(out.bytes, from, 16);
    return out;
}
inline void store_half(void *to, Half a) { std::memcpy(to, a.bytes, 16); }
inline void store_first_8_bytes(void *to, Half a) { std::memcpy(to, a.bytes, 8); }
inline void store_last_8_bytes(void *to, Half a) { std::memcpy(to, a.bytes + 8, 8); }

inline Half half_of_8(int value) {
    return made<std::uint8_t>([value](std::size_t) { return value; });
}
inline Half half_of_16(int value) {
    return made<std::int16_t>([value](std::size_t) { return value; });
}
inline Half half_of_32(int value) {
    return made<std::int32_t>([value](std::size_t) { return value; });
}

using U8 = std::uint8_t;
using S16 = std::int16_t;
using U16 = std::uint16_t;
using S32 = std::int32_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

inline Half bits_or(Half a, Half b) {
    return mapped<U64>(a, b, [](U64 x, U64 y) { return x | y; });
}
inline Half bits_and(Half a, Half b) {
    return mapped<U64>(a, b, [](U64 x, U64 y) { return x & y; });
}
inline Half add_8(Half a, Half b) {
    return mapped<U8>(a, b, [](U8 x, U8 y) { return x + y; });
}
inline Half add_16(Half a, Half b) {
    return mapped<U16>(a, b, [](U16 x, U16 y) { return x + y; });
}
inline Half subtract_16(Half a, Half b) {
    return mapped<U16>(a, b, [](U16 x, U16 y) { return x - y; });
}
inline Half add_32(Half a, Half b) {
    return mapped<U32>(a, b, [](U32 x, U32 y) { return x + y; });
}
inline Half subtract_32(Half a, Half b) {
    return mapped<U32>(a, b, [](U32 x, U32 y) { return x - y; });
}
// Sums of two neighbours each: first of a, then of b.
inline Half add_neighbours_32(Half a, Half b) {
    const Elements<U32> first(a), second(b);
    return made<U32>([&](std::size_t i) {
        const U32 *const from = (i < 2 ? first.value : second.value) + i % 2 * 2;
        return from[0] + from[1];
    });
}
inline Half magnitude_16(Half a) {
    return mapped<S16>(a, a, [](int x, int) { return x < 0 ? -x : x; });
}

inline Half multiply_16(Half a, Half b) {
    return mapped<S16>(a, b, [](int x, int y) { return x * y; });
}
// The upper 16 bits of each product.
inline Half multiply_high_16(Half a, Half b) {
    return mapped<S16>(a, b, [](int x, int y) { return (x * y) >> 16; });
}
// Products of bytes, which are signed only in b, with two neighbours added up to 16 bits; limited to their range.
inline Half multiply_pairs_u8(Half a, Half b) {
    return made<S16>([&](std::size_t i) {
        const auto product = [&](std::size_t k) { return a.bytes[k] * static_cast<std::int8_t>(b.bytes[k]); };
        return std::clamp<S32>(product(2 * i) + product(2 * i + 1), INT16_MIN, INT16_MAX);
    });
}
// Products of elements of 16 bits, with two neighbours added up to 32 bits.
inline Half multiply_pairs_16(Half a, Half b) {
    const Elements<S16> first(a), second(b);
    return made<U32>([&](std::size_t i) {
        const auto product = [&](std::size_t k) { return static_cast<U32>(first.value[k] * second.value[k]); };
        return product(2 * i) + product(2 * i + 1);
    });
}
inline Half multiply_32(Half a, Half b) {
    return mapped<U32>(a, b, [](U32 x, U32 y) { return x * y; });
}

template <int Bits>
inline Half shift_left_16(Half a) {
    return mapped<U16>(a, a, [](U16 x, U16) { return x << Bits; });
}
template <int Bits>
inline Half shift_right_16(Half a) {
    return mapped<S16>(a, a, [](S16 x, S16) { return x >> Bits; });
}
template <int Bits>
inline Half shift_right_u16(Half a) {
    return mapped<U16>(a, a, [](U16 x, U16) { return x >> Bits; });
}
template <int Bits>
inline Half shift_right_32(Half a) {
    return mapped<S32>(a, a, [](S32 x, S32) { return x >> Bits; });
}

// The elements of a, then of b, in half the bits; values outside of the range become its ends.
inline Half narrow_32_to_16(Half a, Half b) {
    const Elements<S32> first(a), second(b);
    return made<S16>([&](std::size_t i) {
        return std::clamp<S32>(i < 4 ? first.value[i] : second.value[i - 4], INT16_MIN, INT16_MAX);
    });
}
inline Half narrow_16_to_8(Half a, Half b) {
    const Elements<S16> first(a), second(b);
    return made<std::int8_t>([&](std::size_t i) {
        return std::clamp<S16>(i < 8 ? first.value[i] : second.value[i - 8], INT8_MIN, INT8_MAX);
    });
}

// The elements of the lower or upper 64 bits of a and b in turns.
inline Half interleave_low_16(Half a, Half b) {
    const Elements<S16> first(a), second(b);
    return made<S16>([&](std::size_t i) { return (i % 2 ? second : first).value[i / 2]; });
}
inline Half interleave_high_16(Half a, Half b) {
    const Elements<S16> first(a), second(b);
    return made<S16>([&](std::size_t i) { return (i % 2 ? second : first).value[4 + i / 2]; });
}
inline Half interleave_low_64(Half a, Half b) {
    return made<U64>([&](std::size_t i) { return Elements<U64>(i ? b : a).value[0]; });
}
inline Half interleave_high_64(Half a, Half b) {
    return made<U64>([&](std::size_t i) { return Elements<U64>(i ? b : a).value[1]; });
}

#include "common/vectors_of_halves.hpp"

inline bool is_zero(Vector a) {
    const Elements<U64> all(bits_or(low(a), high(a)));
    return (all.value[0] | all.value[1]) == 0;
}

inline Vector equal_8(Vector a, Vector b) {
    std::uint8_t first[32], second[32];
    store(first, a), store(second, b);
    for (int i = 0; i < 32; ++i) first[i] = first[i] == second[i] ? 0xFF : 0;
    return load(first);
}

inline Vector digits_8(Vector a) {
    std::uint8_t bytes[32];
    store(bytes, a);
    for (std::uint8_t &each : bytes) each = each >= '0' && each <= '9' ? 0xFF : 0;
    return load(bytes);
}

inline std::uint32_t mask_of(Vector a) {
    std::uint8_t bytes[32];
    store(bytes, a);
    std::uint32_t mask = 0;
    for (int i = 0; i < 32; ++i) mask |= std::uint32_t{bytes[i] == 0xFF} << i;
    return mask;
}

inline std::uint32_t mask_of_byte(Vector a, int byte) { return mask_of(equal_8(a, all_8(byte))); }

inline int find_byte(Vector a, int byte) {
    std::uint8_t bytes[32];
    store(bytes, a);
    return static_cast<int>(std::find(bytes, bytes + 32, static_cast<std::uint8_t>(byte)) - bytes);
}

inline Vector widen_u8_to_16(Half a) {
    return {made<S16>([&](std::size_t i) { return a.bytes[i]; }),
            made<S16>([&](std::size_t i) { return a.bytes[8 + i]; })};
}
inline Vector widen_first_u8_to_32(Half a) {
    return {made<S32>([&](std::size_t i) { return a.bytes[i]; }),
            made<S32>([&](std::size_t i) { return a.bytes[4 + i]; })};
}
inline Vector widen_last_u8_to_32(Half a) { return widen_first_u8_to_32(interleave_high_64(a, a)); }
inline Half narrow_16_to_u8(Vector a) {
    const Elements<S16> first(low(a)), second(high(a));
    return made<U8>(
        [&](std::size_t i) { return std::clamp<S16>(i < 8 ? first.value[i] : second.value[i - 8], 0, 255); });
}

inline void store_bytes_in_threes(void *to, Half first, Half second, Half third) {
    auto *out = static_cast<std::uint8_t *>(to);
    for (std::size_t i = 0; i < 16; ++i, out += 3) {
        out[0] = first.bytes[i], out[1] = second.bytes[i], out[2] = third.bytes[i];
    }
}

}  // namespace bushel::scalar
