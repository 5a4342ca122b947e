// Copies of whole cache lines, with and without the 64-byte vectors of AVX-512.
#include "common/cache.hpp"

#include "common/simd.hpp"

namespace bushel {

namespace {

using CopyLines = void (*)(std::uint8_t *out, const std::uint8_t *data, std::size_t lines, const std::uint8_t *next);

void plain_copy(std::uint8_t *out, const std::uint8_t *data, std::size_t lines, const std::uint8_t *next) {
    for (std::size_t at = 0; at < lines * cache_line; at += cache_line) {
        load_line_for_later(next + at);
        std::memcpy(out + at, data + at, cache_line);
    }
}

#ifdef BUSHEL_X86
BUSHEL_AVX512 void avx512_copy(std::uint8_t *out, const std::uint8_t *data, std::size_t lines,
                               const std::uint8_t *next) {
    for (std::size_t at = 0; at < lines * cache_line; at += cache_line) {
        load_line_for_later(next + at);
        _mm512_storeu_si512(out + at, _mm512_loadu_si512(data + at));
    }
}
#endif

}  // namespace

void copy_lines(std::uint8_t *out, const std::uint8_t *data, std::size_t lines, const std::uint8_t *next) {
    static const CopyLines fastest = select<CopyLines>({
#ifdef BUSHEL_X86
        {Simd::avx512, avx512_copy},
#endif
        {Simd::scalar, plain_copy},
    });
    fastest(out, data, lines, next);
}

}  // namespace bushel
