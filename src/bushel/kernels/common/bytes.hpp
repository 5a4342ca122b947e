// Numbers and characters as bytes: little-endian words, varints (7 bits a byte, the lowest first), and UTF-8.
#pragma once
#include <cstdint>

namespace bushel {

inline std::uint16_t little_16(const std::uint8_t *at) { return static_cast<std::uint16_t>(at[0] | at[1] << 8); }

inline std::uint32_t little_32(const std::uint8_t *at) {
    return at[0] | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 | std::uint32_t{at[3]} << 24;
}

inline std::uint64_t little_64(const std::uint8_t *at) {
    return little_32(at) | std::uint64_t{little_32(at + 4)} << 32;
}

// Read a varint at `at`, which moves past it. Return false if it does not end within 64 bits and before `end`.
inline bool read_varint(const std::uint8_t *&at, const std::uint8_t *end, std::uint64_t &value) {
    constexpr int most_bytes = 10;
    if (at < end && *at < 0x80) {  // the usual case
        value = *at++;
        return true;
    }
    value = 0;
    for (int i = 0; i < most_bytes && at < end; ++i) {
        const std::uint8_t byte = *at++;
        value |= std::uint64_t{byte & 0x7Fu} << (7 * i);
        if (byte < 0x80) return i < most_bytes - 1 || byte <= 1;
    }
    return false;
}

// Append a character to a string, or to a vector of bytes.
template <typename Text>
void append_utf8(Text &text, std::uint32_t code) {
    const auto add = [&text](std::uint32_t byte) { text.push_back(static_cast<typename Text::value_type>(byte)); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
        add(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            add(0xE0 | code >> 12);
        } else {
            add(0xF0 | code >> 18);
            add(0x80 | (code >> 12 & 0x3F));
        }
        add(0x80 | (code >> 6 & 0x3F));
    }
    add(0x80 | (code & 0x3F));
}

}  // namespace bushel
