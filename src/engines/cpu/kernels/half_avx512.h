// float16 to float by AVX-512.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "engines/cpu/kernels/vec.h"

namespace maxtext::MAXTEXT_ISA {

[[gnu::always_inline]] inline Vec<float> load_halves(const std::byte* from) {
  // Under a mask of ones: of its own unmasked form GCC 12 says that it reads what was never set.
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace maxtext::MAXTEXT_ISA
