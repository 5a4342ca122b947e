// Vectors of 256 bits for the kernels: with AVX2, with NEON, or in scalar code, which the other two must agree with
// (tests/kernels/vectors_test.cpp). A program is compiled for one of them.
//
// `Vector` has two halves of 128 bits, of the type `Half`. The number at the end of an operation's name is the number
// of bits of its elements, which are signed unless there is a `u`. Additions, subtractions and `multiply_16` keep the
// lowest bits; `narrow` limits values to the range of the narrower type. Operations that move elements (`interleave`,
// `narrow`, `add_neighbours`) work within each half, as on x86 processors.
//
// A function that uses them carries BUSHEL_VECTORS, or BUSHEL_VECTORS_INLINE to become part of its caller; with AVX2,
// that also holds for lambdas. It may be called only if `supports(vectors_need)`.
#pragma once
#include "common/simd.hpp"

#if defined(BUSHEL_X86)
#include "common/vectors_avx2.hpp"
#define BUSHEL_VECTORS BUSHEL_AVX2
#define BUSHEL_VECTORS_INLINE BUSHEL_AVX2_INLINE
namespace bushel {
namespace vectors = avx2;
constexpr Simd vectors_need = Simd::avx2;
}  // namespace bushel
#elif defined(BUSHEL_ARM)
#include "common/vectors_neon.hpp"
#define BUSHEL_VECTORS
#define BUSHEL_VECTORS_INLINE __attribute__((always_inline)) inline
namespace bushel {
namespace vectors = neon;
constexpr Simd vectors_need = Simd::neon;
}  // namespace bushel
#else
#include "common/vectors_scalar.hpp"
#define BUSHEL_VECTORS
#define BUSHEL_VECTORS_INLINE inline
namespace bushel {
namespace vectors = scalar;
constexpr Simd vectors_need = Simd::scalar;
}  // namespace bushel
#endif
