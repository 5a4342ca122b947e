#include "jpeg_entropy.hpp"

#ifdef BUSHEL_BASELINE

namespace bushel {

// Copies 32 bytes at a time until one of them is 0xFF, of which there is one in some hundreds.
BUSHEL_WIDE void SegmentBits::set(const std::uint8_t *data, std::size_t size) {
    constexpr std::size_t step = 32;
    const std::uint8_t *end = data + size;
    std::uint8_t *out = bytes_.bytes(size + room);
    begin_ = out;
    is_before_marker_ = false;
    const __m256i ones = _mm256_set1_epi8(-1);
    while (data < end) {
        if (static_cast<std::size_t>(end - data) < step) {
            const std::uint8_t byte = *data++;
            *out++ = byte;
            if (byte != 0xFF) continue;
        } else {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(data));
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), bytes);
            const auto found = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, ones)));
            const std::size_t plain = found ? static_cast<std::size_t>(__builtin_ctz(found)) + 1 : step;
            data += plain, out += plain;
            if (!found) continue;
        }
        if (data < end && *data == 0) {
            ++data;
            continue;
        }
        --out;
        while (data < end && *data == 0xFF) ++data;  // fill bytes
        is_before_marker_ = data < end && *data != 0;  // FF FF 00 is none: libjpeg is to say what it is
        break;
    }
    size_ = static_cast<std::size_t>(out - begin_);
    std::memset(out, 0, 64);
}

}  // namespace bushel
#endif
