// Blocks of 64 bytes of text, and masks that say where some of their bytes are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/vectors.hpp"

namespace bushel {

constexpr std::ptrdiff_t block_size = 64;

// 64 bytes, or those that are left before `end`, and zeros.
struct Block {
    vectors::Vector first, second;
};

BUSHEL_VECTORS_INLINE Block block_at(const std::uint8_t *at, const std::uint8_t *end) {
    if (end - at >= block_size) return {vectors::load(at), vectors::load(at + 32)};
    std::uint8_t bytes[block_size] = {};
    if (at < end) std::memcpy(bytes, at, static_cast<std::size_t>(end - at));
    return {vectors::load(bytes), vectors::load(bytes + 32)};
}

// The mask of the bytes of a block that are 255; the others are 0.
BUSHEL_VECTORS_INLINE std::uint64_t mask_of(const Block &block) {
    return vectors::mask_of(block.first) | std::uint64_t{vectors::mask_of(block.second)} << 32;
}

// The mask of a byte in a block.
BUSHEL_VECTORS_INLINE std::uint64_t mask_of(const Block &block, int byte) {
    const vectors::Vector pattern = vectors::all_8(byte);
    return mask_of(Block{vectors::equal_8(block.first, pattern), vectors::equal_8(block.second, pattern)});
}

inline int lowest(std::uint64_t mask) { return __builtin_ctzll(mask); }
inline std::uint64_t below(int bit) { return (std::uint64_t{1} << bit) - 1; }

// Bit i is set if an odd number of the bits up to i is.
inline std::uint64_t odd_up_to(std::uint64_t bits) {
    for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
    return bits;
}

}  // namespace bushel
