#include "engines/cpu/column_sums.h"
#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"
#include "engines/cpu/widened.h"

namespace maxtext {
namespace {

template <typename T>
void normalise(const RmsNorm& op, const Tensor& input, const T* weight, const Tensor& output) {
  const auto& loops = vector_loops<T>();
  const std::int64_t n = input.shape().back();
  const T* x = data<T>(input);
  T* y = data<T>(output);
  for_rows(row_count(input.shape()), n, [&](std::int64_t row) {
    loops.rms_norm(n, op.epsilon, static_cast<T>(op.weight_offset), x + row * n, weight, y + row * n);
  });
}

}  // namespace

void run(CpuContext& context, const RmsNorm& op, Inputs inputs, Outputs outputs) {
  if (inputs[0].dtype() == DType::float32) {
    const Widened weight(context, inputs[1]);
    return normalise(op, inputs[0], weight.data(), outputs[0]);
  }
  with_real(op.name, inputs[0].dtype(),
            [&]<typename T>(T) { normalise(op, inputs[0], data<T>(inputs[1]), outputs[0]); });
}

void run(CpuContext& context, const RmsNormBackward& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const auto& loops = vector_loops<T>();
    const std::int64_t n = inputs[2].dim(0);
    const T* dy = data<T>(inputs[0]);
    const T* x = data<T>(inputs[1]);
    const T* weight = data<T>(inputs[2]);
    T* dx = data<T>(outputs[0]);
    sum_rows(context, row_count(inputs[0].shape()), n, op.accumulate, data<T>(outputs[1]),
             [&](std::int64_t row, T* partial) {
               loops.rms_norm_backward(n, op.epsilon, static_cast<T>(op.weight_offset), dy + row * n, x + row * n,
                                       weight, dx + row * n, partial);
             });
  });
}

OpScratch op_scratch(const RmsNorm& /*op*/, InputSpecs inputs, int /*threads*/) {
  return {Widened::workspace(inputs[1]), {}};
}

OpScratch op_scratch(const RmsNormBackward& /*op*/, InputSpecs inputs, int /*threads*/) {
  return {0, {row_blocks(row_count(inputs[0].shape)).blocks * inputs[2].bytes()}};
}

}  // namespace maxtext
