// Processors have an instruction for this polynomial; scalar code looks up tables.
#include "files/crc32c.hpp"

#include <cstring>

#include "common/simd.hpp"
#include "files/crc_tables.hpp"

namespace bushel {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78;  // bits reversed: bit 31 is x^0

constexpr CrcUpdate by_tables = CrcTables<polynomial>::update;

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
    static const auto update = select<CrcUpdate>({
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
