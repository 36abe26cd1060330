#include "ops/merge_states.h"
#include "engines/cpu/attention_state.h"
#include "engines/cpu/run.h"

namespace maxtext {

void run(CpuContext& /*context*/, const MergeStates& op, Inputs inputs, Outputs outputs) {
  const Shape& shape = inputs[0].shape();  // [n, B, T, query_heads, D]
  const std::int64_t states = shape[0];
  const std::int64_t length = shape[2];
  const std::int64_t heads = shape[3];
  const std::int64_t head_dim = shape[4];
  const std::int64_t rows = shape[1] * length * heads;
  const auto* const o = data<float>(inputs[0]);
  const auto* const l = data<float>(inputs[1]);
  const auto* const m = data<float>(inputs[2]);
  const auto* const sinks = op.has_sinks ? data<float>(inputs[3]) : nullptr;
#pragma omp parallel for schedule(static) if (states * rows * head_dim > 16384)
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = row % heads;
    const std::int64_t residual = (row / heads / length * heads + head) * length + row / heads % length;
    const auto state = [&](std::int64_t i) {
      return AttentionState{o + (i * rows + row) * head_dim, l[i * rows + residual], m[i * rows + residual]};
    };
    merge_states(states, state, sinks == nullptr ? nullptr : sinks + head, op.normalize, head_dim,
                 data<float>(outputs[0]) + row * head_dim, data<float>(outputs[1]) + residual,
                 data<float>(outputs[2]) + residual);
  }
}

}  // namespace maxtext
