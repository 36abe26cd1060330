// float16 to float in integer arithmetic, for instruction sets without a conversion. The build chooses one half_*.h.
#pragma once

#include <cstddef>

#include "engines/cpu/kernels/vec.h"

namespace maxtext::MAXTEXT_ISA {

/// lanes<float> values of float16, at any address; exact, subnormals, infinities and NaN too.
[[gnu::always_inline]] inline Vec<float> load_halves(const std::byte* from) {
  typedef std::uint16_t Halves __attribute__((vector_size(2 * lanes<float>), aligned(1), may_alias));
  const auto bits = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), IntVec<float>);
  const IntVec<float> magnitude = (bits & 0x7fff) << 13;
  // Exponents are 112 apart; multiplying also normalises float16's subnormals.
  const Vec<float> scaled = reinterpret_cast<Vec<float>>(magnitude) * broadcast(0x1p112F);
  const IntVec<float> not_finite = magnitude >= (0x7c00 << 13);
  const IntVec<float> value = reinterpret_cast<IntVec<float>>(scaled) | (not_finite & 0x7f800000);
  return reinterpret_cast<Vec<float>>(value | ((bits & 0x8000) << 16));
}

}  // namespace maxtext::MAXTEXT_ISA
