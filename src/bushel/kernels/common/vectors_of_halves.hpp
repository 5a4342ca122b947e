// Operations on vectors of two halves, made of those on one half; common/vectors_neon.hpp and common/vectors_scalar.hpp
// include this in their namespaces.

struct Vector {
    Half low_half, high_half;
};

inline Half low(Vector a) { return a.low_half; }
inline Half high(Vector a) { return a.high_half; }
inline Vector lows(Vector a, Vector b) { return {low(a), low(b)}; }
inline Vector highs(Vector a, Vector b) { return {high(a), high(b)}; }

inline Vector load(const void *from) {
    return {load_half(from), load_half(static_cast<const std::uint8_t *>(from) + 16)};
}
inline void store(void *to, Vector a) {
    store_half(to, low(a));
    store_half(static_cast<std::uint8_t *>(to) + 16, high(a));
}

inline Vector all_8(int value) { return {half_of_8(value), half_of_8(value)}; }
inline Vector all_16(int value) { return {half_of_16(value), half_of_16(value)}; }
inline Vector all_32(int value) { return {half_of_32(value), half_of_32(value)}; }

#define BUSHEL_BOTH_HALVES(name) \
    inline Vector name(Vector a, Vector b) { return {name(low(a), low(b)), name(high(a), high(b))}; }
BUSHEL_BOTH_HALVES(bits_or)
BUSHEL_BOTH_HALVES(bits_and)
BUSHEL_BOTH_HALVES(add_8)
BUSHEL_BOTH_HALVES(add_16)
BUSHEL_BOTH_HALVES(subtract_16)
BUSHEL_BOTH_HALVES(add_32)
BUSHEL_BOTH_HALVES(subtract_32)
BUSHEL_BOTH_HALVES(add_neighbours_32)
BUSHEL_BOTH_HALVES(multiply_high_16)
BUSHEL_BOTH_HALVES(multiply_pairs_u8)
BUSHEL_BOTH_HALVES(multiply_pairs_16)
BUSHEL_BOTH_HALVES(multiply_32)
BUSHEL_BOTH_HALVES(narrow_32_to_16)
BUSHEL_BOTH_HALVES(narrow_16_to_8)
BUSHEL_BOTH_HALVES(interleave_low_16)
BUSHEL_BOTH_HALVES(interleave_high_16)
BUSHEL_BOTH_HALVES(interleave_low_64)
BUSHEL_BOTH_HALVES(interleave_high_64)
#undef BUSHEL_BOTH_HALVES

inline Vector magnitude_16(Vector a) { return {magnitude_16(low(a)), magnitude_16(high(a))}; }

#define BUSHEL_BOTH_HALVES(name)                          \
    template <int Bits>                                   \
    inline Vector name(Vector a) {                        \
        return {name<Bits>(low(a)), name<Bits>(high(a))}; \
    }
BUSHEL_BOTH_HALVES(shift_left_16)
BUSHEL_BOTH_HALVES(shift_right_16)
BUSHEL_BOTH_HALVES(shift_right_u16)
BUSHEL_BOTH_HALVES(shift_right_32)
#undef BUSHEL_BOTH_HALVES

inline Vector interleave_16(Half a, Half b) { return {interleave_low_16(a, b), interleave_high_16(a, b)}; }
inline Vector quarters_0213(Vector a) {
    return {interleave_low_64(low(a), high(a)), interleave_high_64(low(a), high(a))};
}
