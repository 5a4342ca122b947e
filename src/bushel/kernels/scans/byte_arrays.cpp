#include "scans/byte_arrays.hpp"

#include <stdexcept>
#include <string>

namespace bushel {

ByteArrays find_byte_arrays(const std::uint8_t *data, std::size_t size, std::int64_t count) {
    if (count < 0 || static_cast<std::uint64_t>(count) > size / 4) {
        throw std::invalid_argument(std::to_string(count) + " values are announced in " + std::to_string(size) +
                                    " bytes");
    }
    ByteArrays found;
    const auto values = static_cast<std::size_t>(count);
    found.offset.resize(values);
    found.length.resize(values);
    std::size_t at = 0;
    for (std::size_t i = 0; i < values; ++i) {
        if (size - at < 4) {
            throw std::invalid_argument("the bytes end before the length of value " + std::to_string(i));
        }
        const std::uint32_t length = data[at] | std::uint32_t{data[at + 1]} << 8 | std::uint32_t{data[at + 2]} << 16 |
                                     std::uint32_t{data[at + 3]} << 24;
        at += 4;
        if (length > size - at) {
            throw std::invalid_argument("value " + std::to_string(i) + " of a page has " + std::to_string(length) +
                                        " bytes, but only " + std::to_string(size - at) + " are left");
        }
        found.offset[i] = static_cast<std::int64_t>(at);
        found.length[i] = length;
        at += length;
    }
    return found;
}

}  // namespace bushel
