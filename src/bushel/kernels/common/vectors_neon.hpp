// The operations of common/vectors.hpp with NEON.
#pragma once
#include <arm_neon.h>

#include <cstdint>

namespace bushel::neon {

using Half = uint8x16_t;

inline int16x8_t as_16(Half a) { return vreinterpretq_s16_u8(a); }
inline int32x4_t as_32(Half a) { return vreinterpretq_s32_u8(a); }
inline int64x2_t as_64(Half a) { return vreinterpretq_s64_u8(a); }
inline Half half(int16x8_t a) { return vreinterpretq_u8_s16(a); }
inline Half half(int32x4_t a) { return vreinterpretq_u8_s32(a); }
inline Half half(int64x2_t a) { return vreinterpretq_u8_s64(a); }

inline Half load_half(const void *from) { return vld1q_u8(static_cast<const std::uint8_t *>(from)); }
inline void store_half(void *to, Half a) { vst1q_u8(static_cast<std::uint8_t *>(to), a); }
inline void store_first_8_bytes(void *to, Half a) { vst1_u8(static_cast<std::uint8_t *>(to), vget_low_u8(a)); }
inline void store_last_8_bytes(void *to, Half a) { vst1_u8(static_cast<std::uint8_t *>(to), vget_high_u8(a)); }

inline Half half_of_8(int value) { return vdupq_n_u8(static_cast<std::uint8_t>(value)); }
inline Half half_of_16(int value) { return half(vdupq_n_s16(static_cast<std::int16_t>(value))); }
inline Half half_of_32(int value) { return half(vdupq_n_s32(value)); }

inline Half bits_or(Half a, Half b) { return vorrq_u8(a, b); }
inline Half bits_and(Half a, Half b) { return vandq_u8(a, b); }
inline Half add_8(Half a, Half b) { return vaddq_u8(a, b); }
inline Half add_16(Half a, Half b) { return half(vaddq_s16(as_16(a), as_16(b))); }
inline Half subtract_16(Half a, Half b) { return half(vsubq_s16(as_16(a), as_16(b))); }
inline Half add_32(Half a, Half b) { return half(vaddq_s32(as_32(a), as_32(b))); }
inline Half subtract_32(Half a, Half b) { return half(vsubq_s32(as_32(a), as_32(b))); }
inline Half add_neighbours_32(Half a, Half b) { return half(vpaddq_s32(as_32(a), as_32(b))); }
inline Half magnitude_16(Half a) { return half(vabsq_s16(as_16(a))); }

inline int32x4_t low_products(Half a, Half b) { return vmull_s16(vget_low_s16(as_16(a)), vget_low_s16(as_16(b))); }
inline int32x4_t high_products(Half a, Half b) { return vmull_high_s16(as_16(a), as_16(b)); }

inline Half multiply_16(Half a, Half b) { return half(vmulq_s16(as_16(a), as_16(b))); }
inline Half multiply_high_16(Half a, Half b) {
    return half(vuzp2q_s16(vreinterpretq_s16_s32(low_products(a, b)), vreinterpretq_s16_s32(high_products(a, b))));
}
inline Half multiply_pairs_u8(Half a, Half b) {
    const int8x16_t factors = vreinterpretq_s8_u8(b);
    const int16x8_t first = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a))), vmovl_s8(vget_low_s8(factors)));
    const int16x8_t last = vmulq_s16(vreinterpretq_s16_u16(vmovl_high_u8(a)), vmovl_high_s8(factors));
    return half(vqaddq_s16(vuzp1q_s16(first, last), vuzp2q_s16(first, last)));
}
inline Half multiply_pairs_16(Half a, Half b) { return half(vpaddq_s32(low_products(a, b), high_products(a, b))); }
inline Half multiply_32(Half a, Half b) { return half(vmulq_s32(as_32(a), as_32(b))); }

template <int Bits>
inline Half shift_left_16(Half a) {
    return half(vshlq_n_s16(as_16(a), Bits));
}
template <int Bits>
inline Half shift_right_16(Half a) {
    return half(vshrq_n_s16(as_16(a), Bits));
}
template <int Bits>
inline Half shift_right_u16(Half a) {
    return vreinterpretq_u8_u16(vshrq_n_u16(vreinterpretq_u16_u8(a), Bits));
}
template <int Bits>
inline Half shift_right_32(Half a) {
    return half(vshrq_n_s32(as_32(a), Bits));
}

inline Half narrow_32_to_16(Half a, Half b) { return half(vqmovn_high_s32(vqmovn_s32(as_32(a)), as_32(b))); }
inline Half narrow_16_to_8(Half a, Half b) {
    return vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(as_16(a)), as_16(b)));
}

inline Half interleave_low_16(Half a, Half b) { return half(vzip1q_s16(as_16(a), as_16(b))); }
inline Half interleave_high_16(Half a, Half b) { return half(vzip2q_s16(as_16(a), as_16(b))); }
inline Half interleave_low_64(Half a, Half b) { return half(vzip1q_s64(as_64(a), as_64(b))); }
inline Half interleave_high_64(Half a, Half b) { return half(vzip2q_s64(as_64(a), as_64(b))); }

#include "common/vectors_of_halves.hpp"

inline bool is_zero(Vector a) { return vmaxvq_u32(vreinterpretq_u32_u8(bits_or(low(a), high(a)))) == 0; }

// The shift leaves four bits of each byte's comparison in a word of 64 bits.
inline int find_byte(Half a, int byte) {
    const uint8x16_t equal = vceqq_u8(a, half_of_8(byte));
    const uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(equal), 4);
    const std::uint64_t found = vget_lane_u64(vreinterpret_u64_u8(nibbles), 0);
    return found ? __builtin_ctzll(found) / 4 : 16;
}
inline int find_byte(Vector a, int byte) {
    const int first = find_byte(low(a), byte);
    return first < 16 ? first : 16 + find_byte(high(a), byte);
}

inline Vector equal_8(Vector a, Vector b) { return {vceqq_u8(low(a), low(b)), vceqq_u8(high(a), high(b))}; }
inline Vector digits_8(Vector a) {
    const uint8x16_t zero = half_of_8('0'), nine = half_of_8(9);
    return {vcleq_u8(vsubq_u8(low(a), zero), nine), vcleq_u8(vsubq_u8(high(a), zero), nine)};
}

// Each addition of neighbours joins the bits of two bytes, until a byte has the bits of eight.
inline std::uint32_t mask_of(Vector a) {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t sums = vpaddq_u8(vandq_u8(low(a), bits), vandq_u8(high(a), bits));
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
}
inline std::uint32_t mask_of_byte(Vector a, int byte) {
    const uint8x16_t pattern = half_of_8(byte);
    return mask_of({vceqq_u8(low(a), pattern), vceqq_u8(high(a), pattern)});
}

inline Vector widen_u8_to_16(Half a) {
    return {vreinterpretq_u8_u16(vmovl_u8(vget_low_u8(a))), vreinterpretq_u8_u16(vmovl_high_u8(a))};
}
inline Vector widen_u16_to_32(uint16x8_t a) {
    return {vreinterpretq_u8_u32(vmovl_u16(vget_low_u16(a))), vreinterpretq_u8_u32(vmovl_high_u16(a))};
}
inline Vector widen_first_u8_to_32(Half a) { return widen_u16_to_32(vmovl_u8(vget_low_u8(a))); }
inline Vector widen_last_u8_to_32(Half a) { return widen_u16_to_32(vmovl_high_u8(a)); }
inline Half narrow_16_to_u8(Vector a) { return vqmovun_high_s16(vqmovun_s16(as_16(low(a))), as_16(high(a))); }

inline void store_bytes_in_threes(void *to, Half first, Half second, Half third) {
    vst3q_u8(static_cast<std::uint8_t *>(to), {{first, second, third}});
}

}  // namespace bushel::neon
