#include <cmath>

#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {

void run(CpuContext& /*context*/, const ClipFactor& op, Inputs inputs, Outputs outputs) {
  const double* squares = data<double>(inputs[0]);
  double sum = 0;
  for (std::int64_t i = 0; i < inputs[0].elements(); ++i) sum += squares[i];
  const double norm = std::sqrt(sum);
  const bool clipped = op.threshold > 0 && norm >= op.threshold;
  float* clip = data<float>(outputs[0]);
  clip[0] = static_cast<float>(clipped ? op.threshold / norm : 1.0);
  clip[1] = std::isfinite(norm) ? 1.0F : 0.0F;
  *data<float>(outputs[1]) = static_cast<float>(norm);
}

void run(CpuContext& /*context*/, const AdamW& op, Inputs inputs, Outputs outputs) {
  const float* schedule = data<float>(inputs[4]);
  const float* clip = data<float>(inputs[5]);
  if (clip[1] == 0) return;
  const AdamWScalars scalars{.b1 = op.b1,
                             .b2 = op.b2,
                             .epsilon = op.epsilon,
                             .epsilon_root = op.epsilon_root,
                             .weight_decay = op.weight_decay,
                             .learning_rate = schedule[0],
                             .correction1 = schedule[1],
                             .correction2 = schedule[2],
                             .factor = clip[0]};
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* gradient = data<T>(inputs[1]);
    T* parameter = data<T>(outputs[0]);
    T* m = data<T>(outputs[1]);
    T* v = data<T>(outputs[2]);
    for_ranges(inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) {
      vector_loops<T>().adamw(n, scalars, gradient + begin, parameter + begin, m + begin, v + begin);
    });
  });
}

void run(CpuContext& /*context*/, const Sgd& op, Inputs inputs, Outputs outputs) {
  const float* schedule = data<float>(inputs[2]);
  const float* clip = data<float>(inputs[3]);
  if (clip[1] == 0) return;
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T rate = static_cast<T>(schedule[0]) * static_cast<T>(clip[0]);
    const T* gradient = data<T>(inputs[1]);
    T* parameter = data<T>(outputs[0]);
    for_ranges(inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) {
      vector_loops<T>().sgd(n, rate, gradient + begin, parameter + begin);
    });
  });
}

}  // namespace maxtext
