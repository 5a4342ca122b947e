// What the baseline decoder's inner loops are compiled for: x86 with AVX2 and BMI2 (Haswell, Zen or newer). Elsewhere
// it is left out, and libjpeg, which has assembly for every processor, decodes all images.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define BUSHEL_BASELINE 1
#include <immintrin.h>
#define BUSHEL_WIDE __attribute__((target("avx2,bmi,bmi2")))
#define BUSHEL_INLINE BUSHEL_WIDE __attribute__((always_inline)) inline

namespace bushel {

inline bool has_wide() {
    static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                              __builtin_cpu_supports("bmi2");
    return found;
}

}  // namespace bushel
#endif
