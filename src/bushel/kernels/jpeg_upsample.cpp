#include "jpeg_upsample.hpp"

#ifdef BUSHEL_BASELINE
#include <algorithm>

namespace bushel {

namespace {

constexpr int step = 16;

// Pairs of outputs from the sums one to the left, in the middle and one to the right.
template <int Bits, int RoundLeft, int RoundRight>
BUSHEL_WIDE void across(const std::uint16_t *sums, int count, std::uint8_t *out) {
    const __m256i round_left = _mm256_set1_epi16(RoundLeft), round_right = _mm256_set1_epi16(RoundRight);
    for (int i = 0; i < count; i += step) {
        const auto at = [sums, i](int shift) BUSHEL_WIDE {
            return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(sums + i + shift));
        };
        const __m256i middle = at(1), triple = _mm256_add_epi16(middle, _mm256_slli_epi16(middle, 1));
        const __m256i left = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(triple, at(0)), round_left), Bits);
        const __m256i right = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(triple, at(2)), round_right), Bits);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + 2 * i), _mm256_or_si256(left, _mm256_slli_epi16(right, 8)));
    }
}

BUSHEL_INLINE __m256i widened(const std::uint8_t *samples) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(samples)));
}

BUSHEL_INLINE void store(std::uint16_t *sums, __m256i values) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums), values);
}

// The samples beside a row's ends are those at its ends.
void close(std::uint16_t *sums, int width, int first, int last) {
    if (first == 0) sums[0] = sums[1];
    if (last == width) sums[last - first + 1] = sums[last - first];
}

}  // namespace

void Upsampler::reserve(int count) {
    const auto room = static_cast<std::size_t>(count) + 4 * step;
    if (sums_.size() < room) sums_.resize(room);
    if (out_.size() < 2 * room) out_.resize(2 * room);
}

BUSHEL_WIDE const std::uint8_t *Upsampler::smooth(const std::uint8_t *row, int width, int first, int last) {
    const int count = last - first, before = first > 0;
    reserve(count);
    for (int i = -before; i <= count; i += step) store(sums_.data() + 1 + i, widened(row + first + i));
    close(sums_.data(), width, first, last);
    across<2, 1, 2>(sums_.data(), count, out_.data());
    return out_.data();
}

BUSHEL_WIDE const std::uint8_t *Upsampler::smooth(const std::uint8_t *near, const std::uint8_t *far, int width,
                                                  int first, int last) {
    const int count = last - first, before = first > 0;
    reserve(count);
    for (int i = -before; i <= count; i += step) {
        const __m256i nearer = widened(near + first + i);
        store(sums_.data() + 1 + i,
              _mm256_add_epi16(_mm256_add_epi16(nearer, _mm256_slli_epi16(nearer, 1)), widened(far + first + i)));
    }
    close(sums_.data(), width, first, last);
    across<4, 8, 7>(sums_.data(), count, out_.data());
    return out_.data();
}

BUSHEL_WIDE const std::uint8_t *Upsampler::repeat(const std::uint8_t *row, int first, int last) {
    const int count = last - first;
    reserve(count);
    for (int i = 0; i < count; i += step) {
        const __m256i samples = widened(row + first + i);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out_.data() + 2 * i),
                            _mm256_or_si256(samples, _mm256_slli_epi16(samples, 8)));
    }
    return out_.data();
}

}  // namespace bushel
#endif
