#include <algorithm>
#include <array>

#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {
namespace {

GateKind kind_of(Activation activation) {
  return activation == Activation::silu ? GateKind::silu : GateKind::gelu_tanh;
}

/// The loops do not allow outputs over inputs, so inputs are copied, a block in L1 at a time.
template <typename T>
void gate_backward_in_place(std::int64_t n, GateKind kind, const T* dy, T* gate, T* up) {
  constexpr std::int64_t kBlock = 512;
  std::array<T, kBlock> old_gate;
  std::array<T, kBlock> old_up;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    std::copy_n(gate + begin, count, old_gate.data());
    std::copy_n(up + begin, count, old_up.data());
    vector_loops<T>().gate_backward(count, kind, dy + begin, old_gate.data(), old_up.data(), gate + begin, up + begin);
  }
}

}  // namespace

void run(CpuContext& /*context*/, const GatedActivation& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* gate = data<T>(inputs[0]);
    const T* up = data<T>(inputs[1]);
    T* y = data<T>(outputs[0]);
    for_ranges(inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) {
      vector_loops<T>().gate(n, kind_of(op.activation), gate + begin, up + begin, y + begin);
    });
  });
}

void run(CpuContext& /*context*/, const GatedActivationBackward& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* dy = data<T>(inputs[0]);
    const T* gate = data<T>(inputs[1]);
    const T* up = data<T>(inputs[2]);
    T* dgate = data<T>(outputs[0]);
    T* dup = data<T>(outputs[1]);
    for_ranges(inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) {
      if (op.in_place) {
        gate_backward_in_place(n, kind_of(op.activation), dy + begin, dgate + begin, dup + begin);
        return;
      }
      vector_loops<T>().gate_backward(n, kind_of(op.activation), dy + begin, gate + begin, up + begin, dgate + begin,
                                      dup + begin);
    });
  });
}

}  // namespace maxtext
