// SIMD: which instruction sets functions are compiled for, and the selection of one at run time.
//
// Most kernels are written once, with the operations of common/vectors.hpp. A function that uses the instructions of
// one set directly carries that set's attribute (BUSHEL_AVX512, ...) and stands in `#ifdef BUSHEL_X86` or `BUSHEL_ARM`.
// `select` returns the first variant that this processor can run; the last one is scalar code, which every other
// variant must agree with. For tests, the environment variable BUSHEL_SIMD=scalar disables all other variants, and
// compiling with BUSHEL_SCALAR leaves them out.
#pragma once
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(BUSHEL_SCALAR)
#define BUSHEL_X86 1
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own avx512fintrin.h (bug 105593)
#endif
#include <immintrin.h>

#define BUSHEL_SSE42 __attribute__((target("sse4.2")))
#define BUSHEL_PCLMUL __attribute__((target("pclmul,sse4.1")))
#define BUSHEL_AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define BUSHEL_AVX512 __attribute__((target("avx512f")))
#define BUSHEL_VPCLMUL __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")))
#define BUSHEL_VPCLMUL_AVX2 __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.1")))
#define BUSHEL_AVX2_INLINE BUSHEL_AVX2 __attribute__((always_inline)) inline
#elif defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__) && !defined(BUSHEL_SCALAR)
#define BUSHEL_ARM 1
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#define BUSHEL_ARM_CRC __attribute__((target("+crc")))
#endif

namespace bushel {

enum class Simd { scalar, sse42, pclmul, avx2, avx512, vpclmul_avx2, vpclmul, neon, arm_crc };

// Whether this processor has all instructions of a set.
inline bool supports(Simd set) {
    if (set == Simd::scalar) return true;
    const char *const allowed = std::getenv("BUSHEL_SIMD");
    if (allowed && std::strcmp(allowed, "scalar") == 0) return false;
#ifdef BUSHEL_X86
    const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    const bool avx512 = __builtin_cpu_supports("avx512f");
    switch (set) {
        case Simd::sse42:
            return __builtin_cpu_supports("sse4.2");
        case Simd::pclmul:
            return pclmul;
        case Simd::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
        case Simd::avx512:
            return avx512;
        case Simd::vpclmul_avx2:
            return pclmul && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
        case Simd::vpclmul:
            return pclmul && avx512 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
        default:
            break;
    }
#endif
#ifdef BUSHEL_ARM
    if (set == Simd::neon) return true;  // every processor of 64 bits has it
#if defined(__linux__)
    constexpr unsigned long hwcap_crc32 = 1 << 7;  // HWCAP_CRC32 in the kernel's asm/hwcap.h
    if (set == Simd::arm_crc) return getauxval(AT_HWCAP) & hwcap_crc32;
#elif defined(__ARM_FEATURE_CRC32)
    if (set == Simd::arm_crc) return true;
#endif
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
