// A CRC of 32 bits by tables: eight lookups per eight bytes (M. Kounavis, F. Berry: "A Systematic Approach to Building
// High Performance, Software-based, CRC Generators", 2005). The bits of the polynomial are reversed: bit 31 is x^0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bushel {

template <std::uint32_t polynomial>
struct CrcTables {
    using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

    static constexpr Tables make() {
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

    static std::uint32_t update(const std::uint8_t *data, std::size_t length, std::uint32_t state) {
        static constexpr Tables tables = make();
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
};

using CrcUpdate = std::uint32_t (*)(const std::uint8_t *, std::size_t, std::uint32_t);

}  // namespace bushel
