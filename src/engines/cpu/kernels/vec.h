// A vector of as many T as the instruction set of this translation unit holds. The build compiles each kernel source
// once per instruction set and names the namespace (MAXTEXT_ISA) and the width (MAXTEXT_VECTOR_BYTES) on the command
// line, with -ffp-contract=fast, so that `multiply_add` is one FMA where there is one. Nothing here or in the kernels
// may call a function template of another namespace: its code, made for this instruction set, could be linked into
// the rest of the program.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "engines/cpu/tanh_coefficients.h"

namespace maxtext::MAXTEXT_ISA {

template <typename T>
struct VecTypes;
template <>
struct VecTypes<float> {
  typedef float Vec __attribute__((vector_size(MAXTEXT_VECTOR_BYTES)));
  typedef float Unaligned __attribute__((vector_size(MAXTEXT_VECTOR_BYTES), aligned(4), may_alias));
  typedef std::int32_t Int;
  typedef std::int32_t IntVec __attribute__((vector_size(MAXTEXT_VECTOR_BYTES)));
};
template <>
struct VecTypes<double> {
  typedef double Vec __attribute__((vector_size(MAXTEXT_VECTOR_BYTES)));
  typedef double Unaligned __attribute__((vector_size(MAXTEXT_VECTOR_BYTES), aligned(8), may_alias));
  typedef std::int64_t Int;
  typedef std::int64_t IntVec __attribute__((vector_size(MAXTEXT_VECTOR_BYTES)));
};

template <typename T>
using Vec = typename VecTypes<T>::Vec;
template <typename T>
using IntVec = typename VecTypes<T>::IntVec;

/// Elements of a Vec<T>.
template <typename T>
constexpr int lanes = MAXTEXT_VECTOR_BYTES / static_cast<int>(sizeof(T));
/// The architectural vector registers: AVX-512 has 32, the others 16.
constexpr int vector_registers = MAXTEXT_VECTOR_BYTES == 64 ? 32 : 16;

template <typename T>
[[gnu::always_inline]] inline Vec<T> load(const T* from) {
  return *reinterpret_cast<const typename VecTypes<T>::Unaligned*>(from);
}
template <typename T>
[[gnu::always_inline]] inline void store(T* to, Vec<T> value) {
  *reinterpret_cast<typename VecTypes<T>::Unaligned*>(to) = value;
}
template <typename T, int... lane>
[[gnu::always_inline]] inline Vec<T> repeat(T value, std::integer_sequence<int, lane...>) {
  return Vec<T>{(static_cast<void>(lane), value)...};
}
/// value in every lane. (Vec<T>{} + value would be an addition, which −0 forbids the compiler to drop: 15 % slower.)
template <typename T>
[[gnu::always_inline]] inline Vec<T> broadcast(T value) {
  return repeat(value, std::make_integer_sequence<int, lanes<T>>{});
}

/// a·b + c, fused where the instruction set can.
template <typename V>
[[gnu::always_inline]] inline V multiply_add(V a, V b, V c) {
  return a * b + c;
}
/// The larger one; b where either is NaN.
template <typename V>
[[gnu::always_inline]] inline V maximum(V a, V b) {
  return a > b ? a : b;
}

/// The smaller one; b where either is NaN.
template <typename V>
[[gnu::always_inline]] inline V minimum(V a, V b) {
  return a < b ? a : b;
}

/// base, base + 1, …
template <typename T>
[[gnu::always_inline]] inline IntVec<T> indices_from(std::int64_t base) {
  IntVec<T> value;
  for (int i = 0; i < lanes<T>; ++i) value[i] = static_cast<typename VecTypes<T>::Int>(i);
  return value + static_cast<typename VecTypes<T>::Int>(base);
}

template <typename V, int shift, int... index>
[[gnu::always_inline]] inline V rotate(V value, std::integer_sequence<int, index...>) {
  return __builtin_shufflevector(value, value, ((index + shift) % static_cast<int>(sizeof...(index)))...);
}
/// combine over all lanes in a fixed tree.
template <typename T, int shift, typename Combine>
[[gnu::always_inline]] inline T reduce_lanes(Vec<T> value, Combine combine) {
  if constexpr (shift == 0) {
    return value[0];
  } else {
    const Vec<T> rotated = rotate<Vec<T>, shift>(value, std::make_integer_sequence<int, lanes<T>>{});
    return reduce_lanes<T, shift / 2>(combine(value, rotated), combine);
  }
}
template <typename T>
[[gnu::always_inline]] inline T reduce_max(Vec<T> value) {
  return reduce_lanes<T, lanes<T> / 2>(value, [](Vec<T> a, Vec<T> b) { return maximum(a, b); });
}
template <typename T>
[[gnu::always_inline]] inline T reduce_add(Vec<T> value) {
  return reduce_lanes<T, lanes<T> / 2>(value, [](Vec<T> a, Vec<T> b) { return a + b; });
}

/// 2^x for x ≤ 127, relative error below 2e-7; exactly 1 at 0 and exactly 0 for x ≤ −127 (−∞ too); NaN stays NaN.
/// x = n + r with |r| ≤ 1/2, a polynomial for 2^r, n added to the exponent bits.
[[gnu::always_inline]] inline Vec<float> exp2_of(Vec<float> x) {
  constexpr float round = 12582912.0F;  // 1.5 · 2^23: adding it leaves the nearest integer in the low bits
  const Vec<float> clamped = maximum(broadcast(-127.0F), x);
  const Vec<float> shifted = clamped + round;
  const Vec<float> r = clamped - (shifted - round);
  Vec<float> p = broadcast(1.3333558146e-3F);
  p = multiply_add(p, r, broadcast(9.6181291918e-3F));
  p = multiply_add(p, r, broadcast(5.5504108664e-2F));
  p = multiply_add(p, r, broadcast(2.4022650695e-1F));
  p = multiply_add(p, r, broadcast(6.9314718056e-1F));
  p = multiply_add(p, r, broadcast(1.0F));
  return reinterpret_cast<Vec<float>>(reinterpret_cast<IntVec<float>>(p) +
                                      (reinterpret_cast<IntVec<float>>(shifted) << 23));
}
/// The library's, a lane at a time: fp64 is for checking, not for speed.
[[gnu::always_inline]] inline Vec<double> exp2_of(Vec<double> x) {
  Vec<double> result;
  for (int i = 0; i < lanes<double>; ++i) result[i] = __builtin_exp2(x[i]);
  return result;
}

/// tanh x, relative error below 4e-7, never beyond ±1; NaN stays NaN.
[[gnu::always_inline]] inline Vec<float> tanh_of(Vec<float> x) {
  constexpr auto limit = static_cast<float>(kTanhLimit);
  const Vec<float> clamped = maximum(broadcast(-limit), minimum(broadcast(limit), x));
  const Vec<float> z = clamped * clamped;
  Vec<float> p = broadcast(static_cast<float>(kTanhNumerator[3]));
  Vec<float> q = broadcast(static_cast<float>(kTanhDenominator[3]));
#pragma GCC unroll 3
  for (int i = 2; i >= 0; --i) {
    p = multiply_add(p, z, broadcast(static_cast<float>(kTanhNumerator[i])));
    q = multiply_add(q, z, broadcast(static_cast<float>(kTanhDenominator[i])));
  }
  p = multiply_add(p, z, broadcast(1.0F));
  q = multiply_add(q, z, broadcast(1.0F));
  return maximum(broadcast(-1.0F), minimum(broadcast(1.0F), clamped * p / q));
}
[[gnu::always_inline]] inline Vec<double> tanh_of(Vec<double> x) {
  Vec<double> result;
  for (int i = 0; i < lanes<double>; ++i) result[i] = __builtin_tanh(x[i]);
  return result;
}

}  // namespace maxtext::MAXTEXT_ISA
