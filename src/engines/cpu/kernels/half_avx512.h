// float16 to float by AVX-512.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "engines/cpu/kernels/vec.h"

namespace maxtext::MAXTEXT_ISA {

[[gnu::always_inline]] inline Vec<float> load_halves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace maxtext::MAXTEXT_ISA
