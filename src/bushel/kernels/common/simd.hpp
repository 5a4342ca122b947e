// SIMD: which instruction sets functions are compiled for, and the selection of one at run time.
//
// A function for an instruction set carries that set's attribute (BUSHEL_AVX2, ...) and stands in `#ifdef BUSHEL_X86`.
// `select` returns the first variant that this processor can run; the last one is scalar code, which every other
// variant must agree with. The environment variable BUSHEL_SIMD=scalar disables all other variants, for tests.
#pragma once
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#if defined(__x86_64__) && defined(__GNUC__)
#define BUSHEL_X86 1
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own avx512fintrin.h (bug 105593)
#endif
#include <immintrin.h>

#define BUSHEL_PCLMUL __attribute__((target("pclmul,sse4.1")))
#define BUSHEL_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define BUSHEL_AVX512 __attribute__((target("avx512f")))
#define BUSHEL_VPCLMUL __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")))
#define BUSHEL_AVX2_INLINE BUSHEL_AVX2 __attribute__((always_inline)) inline
#endif

namespace bushel {

enum class Simd { scalar, pclmul, avx2, avx512, vpclmul };

// Whether this processor has all instructions of a set.
inline bool supports(Simd set) {
    if (set == Simd::scalar) return true;
    const char *const allowed = std::getenv("BUSHEL_SIMD");
    if (allowed && std::strcmp(allowed, "scalar") == 0) return false;
#ifdef BUSHEL_X86
    const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    const bool avx512 = __builtin_cpu_supports("avx512f");
    switch (set) {
        case Simd::pclmul:
            return pclmul;
        case Simd::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
        case Simd::avx512:
            return avx512;
        case Simd::vpclmul:
            return pclmul && avx512 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
        default:
            break;
    }
#endif
    return false;
}

template <typename Function>
struct Variant {
    Simd needs;
    Function function;
};

// The first variant that this processor can run. Callers keep it in a static constant.
template <typename Function>
Function select(std::initializer_list<Variant<Function>> variants) {
    for (const Variant<Function> &variant : variants) {
        if (supports(variant.needs)) return variant.function;
    }
    std::abort();  // the list lacks a scalar variant
}

}  // namespace bushel
