// The element types of a KV cache as floats, two vectors at a time.
#pragma once

#include <cstddef>

#include "engines/cpu/kernels/vec.h"
#include MAXTEXT_HALF_HEADER

namespace maxtext::MAXTEXT_ISA {

/// 2 · lanes consecutive elements of a cache row. `paired` types deliver the even elements in `a` and the odd ones in
/// `b`; the others the first half and the second.
struct Pair {
  Vec<float> a;
  Vec<float> b;
};
constexpr int pair_lanes = 2 * lanes<float>;

struct Float32Row {
  using Stored = float;
  static constexpr bool paired = false;
  [[gnu::always_inline]] static Pair load_pair(const float* from) { return {load(from), load(from + lanes<float>)}; }
};

/// The even and odd elements of a vector of bfloat16 are a shift and a mask away; in memory's order each half would
/// need a widening load and a shift.
struct BFloat16Row {
  using Stored = std::uint16_t;
  static constexpr bool paired = true;
  [[gnu::always_inline]] static Pair load_pair(const std::uint16_t* from) {
    typedef std::uint32_t Words __attribute__((vector_size(MAXTEXT_VECTOR_BYTES)));
    typedef std::uint32_t Unaligned __attribute__((vector_size(MAXTEXT_VECTOR_BYTES), aligned(2), may_alias));
    const Words words = *reinterpret_cast<const Unaligned*>(from);
    return {reinterpret_cast<Vec<float>>(words << 16), reinterpret_cast<Vec<float>>(words & 0xffff0000U)};
  }
};

struct Float16Row {
  using Stored = std::uint16_t;
  static constexpr bool paired = false;
  [[gnu::always_inline]] static Pair load_pair(const std::uint16_t* from) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(from);
    return {load_halves(bytes), load_halves(bytes + 2 * lanes<float>)};
  }
};

/// Without the row's scale.
struct Int8Row {
  using Stored = std::int8_t;
  static constexpr bool paired = false;
  [[gnu::always_inline]] static Vec<float> load_half(const std::int8_t* from) {
    typedef std::int8_t Bytes __attribute__((vector_size(lanes<float>), aligned(1), may_alias));
    typedef std::int16_t Halves __attribute__((vector_size(2 * lanes<float>)));
    // In two steps of twice the width: GCC 12 makes scalar code of one step of four times.
    const auto halves = __builtin_convertvector(*reinterpret_cast<const Bytes*>(from), Halves);
    const auto wide = __builtin_convertvector(halves, IntVec<float>);
    return __builtin_convertvector(wide, Vec<float>);
  }
  [[gnu::always_inline]] static Pair load_pair(const std::int8_t* from) {
    return {load_half(from), load_half(from + lanes<float>)};
  }
};

/// The last `count` < pair_lanes elements of a row, zeros behind them; reads no further.
template <typename Row>
[[gnu::always_inline]] inline Pair load_tail(const typename Row::Stored* from, std::int64_t count) {
  alignas(64) typename Row::Stored padded[pair_lanes] = {};
  for (std::int64_t i = 0; i < count; ++i) padded[i] = from[i];
  return Row::load_pair(padded);
}

/// Where element i of a block of pair_lanes goes.
template <bool paired>
constexpr int place_in_pair(int i) {
  return paired ? i / 2 + i % 2 * lanes<float> : i;
}

}  // namespace maxtext::MAXTEXT_ISA
