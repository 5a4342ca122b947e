#include "scans/byte_arrays.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/bytes.hpp"

namespace bushel {

namespace {

template <typename Source>
ByteArrays find(Source &source, std::int64_t start, std::int64_t size, std::int64_t count) {
    if (start < 0 || size < 0 || start > source.size() || size > source.size() - start) {
        throw std::invalid_argument("the values do not lie inside the bytes");
    }
    if (count < 0 || count > size / 4) {
        throw std::invalid_argument(std::to_string(count) + " values are announced in " + std::to_string(size) +
                                    " bytes");
    }
    ByteArrays arrays;
    const auto values = static_cast<std::size_t>(count);
    arrays.offset.resize(values);
    arrays.length.resize(values);
    // After a short value among long ones, and at first, long ones are not read whole.
    const std::int64_t end = start + size, mean = size / std::max(count, std::int64_t{1});
    std::int64_t at = start, stride = mean;
    for (std::size_t i = 0; i < values; ++i) {
        if (end - at < 4) {
            throw std::invalid_argument("the bytes end before the length of value " + std::to_string(i));
        }
        const std::int64_t length = little_32(next_view(source, at, 4, stride, end));
        at += 4;
        if (length > end - at) {
            throw std::invalid_argument("value " + std::to_string(i) + " of a page has " + std::to_string(length) +
                                        " bytes, but only " + std::to_string(end - at) + " are left");
        }
        arrays.offset[i] = at;
        arrays.length[i] = length;
        at += length;
        stride = std::max(length + 4, mean);
    }
    return arrays;
}

}  // namespace

ByteArrays find_byte_arrays(FileByteSource &source, std::int64_t start, std::int64_t size, std::int64_t count) {
    return find(source, start, size, count);
}

ByteArrays find_byte_arrays(BufferByteSource &source, std::int64_t start, std::int64_t size, std::int64_t count) {
    return find(source, start, size, count);
}

}  // namespace bushel
