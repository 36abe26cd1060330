// The inner loops of elementwise ops and reductions, compiled once per instruction set. Each works on one contiguous
// run of elements in the calling thread. An element's result never depends on its place in the run; sums are taken in
// an order fixed by the length of the run.
#pragma once

#include <cstdint>

#include "engines/cpu/instruction_set.h"

namespace maxtext {

/// silu = x·sigmoid(x); gelu_tanh = x·sigmoid(2·sqrt(2/π)·(x + 0.044715·x³)), which equals the form with tanh.
enum class GateKind { silu, gelu_tanh };

struct AdamWScalars {
  double b1, b2, epsilon, epsilon_root, weight_decay;
  double learning_rate, correction1, correction2;
  double factor;
};

template <typename T>
struct VectorLoops {
  void (*add)(std::int64_t n, const T* a, const T* b, T* out);
  void (*scale)(std::int64_t n, T factor, const T* x, T* out);
  void (*gate)(std::int64_t n, GateKind kind, const T* gate, const T* up, T* out);
  void (*gate_backward)(std::int64_t n, GateKind kind, const T* dy, const T* gate, const T* up, T* dgate, T* dup);
  /// One row: y = x / sqrt(mean(x²) + epsilon) · (weight + offset).
  void (*rms_norm)(std::int64_t n, double epsilon, T offset, const T* x, const T* weight, T* y);
  /// One row; dy·x/sqrt(…) is added to dweight.
  void (*rms_norm_backward)(std::int64_t n, double epsilon, T offset, const T* dy, const T* x, const T* weight, T* dx,
                            T* dweight);
  /// One head: the pair (i, i + half) rotated by cos, sign·sin.
  void (*rope)(std::int64_t half, T sign, const T* x, const T* cos, const T* sin, T* y);
  double (*sum)(std::int64_t n, const T* x);
  double (*sum_of_squares)(std::int64_t n, const T* x);
  /// −∞ for n = 0; NaN are skipped: `exponentials` carries them into its sum.
  T (*maximum)(std::int64_t n, const T* x);
  /// x = exp(x − maximum) in place; returns the sum. NaN of any sign and payload stay NaN.
  double (*exponentials)(std::int64_t n, T maximum, T* x);
  /// The same sum, bit for bit; x stays.
  double (*sum_of_exponentials)(std::int64_t n, T maximum, const T* x);
  /// out = cap·tanh(x/cap); out may be x.
  void (*soft_cap)(std::int64_t n, T cap, const T* x, T* out);
  /// dx = factor·dy·(1 − (y/cap)²) with y = cap·tanh(x/cap); dx may be dy.
  void (*soft_cap_backward)(std::int64_t n, T cap, T factor, const T* dy, const T* y, T* dx);
  void (*adamw)(std::int64_t n, const AdamWScalars& scalars, const T* gradient, T* parameter, T* m, T* v);
  void (*sgd)(std::int64_t n, T rate, const T* gradient, T* parameter);
};

/// The loops for active_instruction_set().
template <typename T>
const VectorLoops<T>& vector_loops();
template <>
const VectorLoops<float>& vector_loops<float>();
template <>
const VectorLoops<double>& vector_loops<double>();

/// The loops of one instruction set, which the machine must have.
template <typename T>
const VectorLoops<T>& vector_loops(InstructionSet set);
template <>
const VectorLoops<float>& vector_loops<float>(InstructionSet set);
template <>
const VectorLoops<double>& vector_loops<double>(InstructionSet set);

namespace baseline {
extern const VectorLoops<float> kFloatLoops;
extern const VectorLoops<double> kDoubleLoops;
}  // namespace baseline
namespace avx2 {
extern const VectorLoops<float> kFloatLoops;
extern const VectorLoops<double> kDoubleLoops;
}  // namespace avx2
namespace avx512 {
extern const VectorLoops<float> kFloatLoops;
extern const VectorLoops<double> kDoubleLoops;
}  // namespace avx512

}  // namespace maxtext
