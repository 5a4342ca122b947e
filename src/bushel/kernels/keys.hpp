// The hash of sample keys. Part of the index format: it must never change.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// FNV-1a, 64 bit (offset basis 0xCBF29CE484222325, prime 0x100000001B3), then the finaliser of splitmix64.
inline std::uint64_t hash_key(const std::uint8_t *key, std::size_t length) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (std::size_t i = 0; i < length; ++i) hash = (hash ^ key[i]) * 0x100000001B3;
    hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9;
    hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EB;
    return hash ^ (hash >> 31);
}

}  // namespace bushel
