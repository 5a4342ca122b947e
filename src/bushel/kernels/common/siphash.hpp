// SipHash-1-3, by Aumasson and Bernstein: a hash with a secret seed, so that nobody can choose texts that collide.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace bushel {

using Seed = std::array<std::uint64_t, 2>;

inline Seed random_seed() {
    std::random_device random;
    Seed seed;
    for (std::uint64_t &each : seed) each = std::uint64_t{random()} << 32 | random();
    return seed;
}

class SipHash {
public:
    explicit SipHash(const Seed &seed)
        : v0_(seed[0] ^ 0x736F6D6570736575), v1_(seed[1] ^ 0x646F72616E646F6D), v2_(seed[0] ^ 0x6C7967656E657261),
          v3_(seed[1] ^ 0x7465646279746573) {}

    // The hash of 64 bits.
    std::uint64_t of(std::string_view text) {
        take(text);
        v2_ ^= 0xFF;
        return finished();
    }

    // The hash of 128 bits. Equal texts of different kinds have different ones.
    std::array<std::uint64_t, 2> wide_of(std::string_view text, std::uint64_t kind) {
        v1_ ^= 0xEE;
        add(kind);
        take(text);
        v2_ ^= 0xEE;
        const std::uint64_t first = finished();
        v1_ ^= 0xDD;
        return {first, finished()};
    }

private:
    void take(std::string_view text) {
        std::size_t at = 0;
        for (; text.size() - at >= 8; at += 8) {
            std::uint64_t word;
            std::memcpy(&word, text.data() + at, 8);
            add(word);
        }
        std::uint64_t last = 0;
        if (at < text.size()) std::memcpy(&last, text.data() + at, text.size() - at);
        add(last ^ std::uint64_t{text.size()} << 56);
    }

    std::uint64_t finished() {
        for (int i = 0; i < 3; ++i) round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

    void add(std::uint64_t word) {
        v3_ ^= word;
        round();
        v0_ ^= word;
    }

    static std::uint64_t turned(std::uint64_t word, int bits) { return word << bits | word >> (64 - bits); }

    void round() {
        v0_ += v1_, v1_ = turned(v1_, 13) ^ v0_, v0_ = turned(v0_, 32);
        v2_ += v3_, v3_ = turned(v3_, 16) ^ v2_;
        v0_ += v3_, v3_ = turned(v3_, 21) ^ v0_;
        v2_ += v1_, v1_ = turned(v1_, 17) ^ v2_, v2_ = turned(v2_, 32);
    }

    std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace bushel
