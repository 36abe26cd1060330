// float16 to float by F16C, which every CPU with AVX2 has.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "engines/cpu/kernels/vec.h"

namespace maxtext::MAXTEXT_ISA {

[[gnu::always_inline]] inline Vec<float> load_halves(const std::byte* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

}  // namespace maxtext::MAXTEXT_ISA
