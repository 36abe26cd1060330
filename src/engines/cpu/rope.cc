#include <cmath>

#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {

void run(CpuContext& /*context*/, const RopeTable& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, op.dtype, [&]<typename T>(T) {
    const std::int64_t positions = inputs[0].elements();
    const auto half = static_cast<std::int64_t>(op.inverse_frequencies.size());
    const auto* position_ids = data<std::int32_t>(inputs[0]);
    T* cos = data<T>(outputs[0]);
    T* sin = data<T>(outputs[1]);
    // A cosine and a sine in double take as long as some 32 elements of simpler work.
    for_rows(positions, 32 * half, [&](std::int64_t p) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = position_ids[p] * op.inverse_frequencies[static_cast<std::size_t>(i)];
        cos[p * half + i] = static_cast<T>(std::cos(angle) * op.attention_factor);
        sin[p * half + i] = static_cast<T>(std::sin(angle) * op.attention_factor);
      }
    });
  });
}

void run(CpuContext& /*context*/, const Rope& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const auto& loops = vector_loops<T>();
    const std::int64_t heads = inputs[0].dim(2);
    const std::int64_t half = inputs[0].dim(3) / 2;
    const std::int64_t positions = inputs[0].dim(0) * inputs[0].dim(1);
    const T* x = data<T>(inputs[0]);
    const T* cos = data<T>(inputs[1]);
    const T* sin = data<T>(inputs[2]);
    T* y = data<T>(outputs[0]);
    const T sign = op.inverse ? T{-1} : T{1};
    for_rows(positions, heads * 2 * half, [&](std::int64_t p) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t at = (p * heads + head) * 2 * half;
        loops.rope(half, sign, x + at, cos + p * half, sin + p * half, y + at);
      }
    });
  });
}

}  // namespace maxtext
