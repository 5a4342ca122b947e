// Processors have an instruction for this polynomial; scalar code looks up a table for each byte of eight.
#include "files/crc32c.hpp"

#include <array>
#include <cstring>

#include "common/simd.hpp"

namespace bushel {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78;  // bits reversed: bit 31 is x^0

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t sum = byte;
        for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? polynomial : 0);
        tables[0][byte] = sum;
    }
    for (std::size_t level = 1; level < 8; ++level) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[level - 1][byte];
            tables[level][byte] = (before >> 8) ^ tables[0][before & 0xFF];
        }
    }
    return tables;
}

constexpr Tables tables = make_tables();

std::uint32_t by_tables(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    for (; length >= 8; data += 8, length -= 8) {
        std::uint32_t next = 0;
        for (unsigned i = 0; i < 4; ++i) {
            next ^= tables[7 - i][(data[i] ^ (state >> (8 * i))) & 0xFF] ^ tables[3 - i][data[4 + i]];
        }
        state = next;
    }
    for (; length; ++data, --length) state = (state >> 8) ^ tables[0][(state ^ *data) & 0xFF];
    return state;
}

#ifdef BUSHEL_X86
BUSHEL_SSE42 std::uint32_t by_instructions(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    std::uint64_t sum = state;
    for (; length >= 8; data += 8, length -= 8) {
        std::uint64_t word;
        std::memcpy(&word, data, sizeof word);
        sum = _mm_crc32_u64(sum, word);
    }
    state = static_cast<std::uint32_t>(sum);
    for (; length; ++data, --length) state = _mm_crc32_u8(state, *data);
    return state;
}
#endif

#ifdef BUSHEL_ARM
BUSHEL_ARM_CRC std::uint32_t by_instructions(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
    for (; length >= 8; data += 8, length -= 8) {
        std::uint64_t word;
        std::memcpy(&word, data, sizeof word);
        state = __crc32cd(state, word);
    }
    for (; length; ++data, --length) state = __crc32cb(state, *data);
    return state;
}
#endif

}  // namespace

std::uint32_t crc32c(const std::uint8_t *data, std::size_t length) {
    static const auto update = select<std::uint32_t (*)(const std::uint8_t *, std::size_t, std::uint32_t)>({
#ifdef BUSHEL_X86
        {Simd::sse42, by_instructions},
#endif
#ifdef BUSHEL_ARM
        {Simd::arm_crc, by_instructions},
#endif
        {Simd::scalar, by_tables},
    });
    return ~update(data, length, ~std::uint32_t{0});
}

}  // namespace bushel
