#include <algorithm>

#include "engines/cpu/column_sums.h"
#include "engines/cpu/few_rows.h"
#include "engines/cpu/gemm.h"
#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"
#include "engines/cpu/widened.h"

namespace maxtext {
namespace {

template <typename T>
void add_to_rows(std::int64_t rows, std::int64_t columns, const T* bias, T* y) {
  const auto& loops = vector_loops<T>();
  for_rows(rows, columns, [&](std::int64_t row) { loops.add(columns, y + row * columns, bias, y + row * columns); });
}

/// x in float32, the weight as it is stored.
void multiply_stored(CpuContext& context, std::int64_t rows, const Tensor& x, const Tensor& weight, float* y) {
  const std::int64_t outputs = weight.dim(0);
  const std::int64_t depth = weight.dim(1);
  const auto* const w = data<std::byte>(weight);
  if (context.fast_few_rows && rows <= most_few_rows) {
    multiply_few_rows(context, rows, outputs, depth, data<float>(x), w, weight.dtype(), y);
  } else if (weight.dtype() == DType::float32) {
    multiply_transposed(context, rows, outputs, depth, data<float>(x), data<float>(weight), y);
  } else {
    multiply_transposed(context, rows, outputs, depth, data<float>(x), w, weight.dtype(), y);
  }
}

}  // namespace

void run(CpuContext& context, const Linear& op, Inputs inputs, Outputs outputs) {
  if (inputs[0].dtype() == DType::float32) {
    const std::int64_t rows = row_count(inputs[0].shape());
    auto* const y = data<float>(outputs[0]);
    multiply_stored(context, rows, inputs[0], inputs[1], y);
    if (inputs.size() == 3) add_to_rows(rows, inputs[1].dim(0), Widened(context, inputs[2]).data(), y);
    return;
  }
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const std::int64_t rows = row_count(inputs[0].shape());
    const std::int64_t out = inputs[1].dim(0);
    T* y = data<T>(outputs[0]);
    multiply_transposed(context, rows, out, inputs[1].dim(1), data<T>(inputs[0]), data<T>(inputs[1]), y);
    if (inputs.size() == 3) add_to_rows(rows, out, data<T>(inputs[2]), y);
  });
}

void run(CpuContext& context, const LinearBackwardInput& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    multiply(context, row_count(inputs[0].shape()), inputs[1].dim(1), inputs[1].dim(0), data<T>(inputs[0]),
             data<T>(inputs[1]), inputs.size() == 3, data<T>(outputs[0]));
  });
}

void run(CpuContext& context, const LinearBackwardWeight& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    transposed_multiply(context, inputs[2].dim(0), inputs[2].dim(1), row_count(inputs[0].shape()), data<T>(inputs[0]),
                        data<T>(inputs[1]), op.accumulate, data<T>(outputs[0]));
  });
}

void run(CpuContext& context, const BiasBackward& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const auto& loops = vector_loops<T>();
    const std::int64_t columns = inputs[1].dim(0);
    const T* dy = data<T>(inputs[0]);
    sum_rows(context, row_count(inputs[0].shape()), columns, op.accumulate, data<T>(outputs[0]),
             [&](std::int64_t row, T* partial) { loops.add(columns, partial, dy + row * columns, partial); });
  });
}

OpScratch op_scratch(const Linear& /*op*/, InputSpecs inputs, int /*threads*/) {
  const TensorSpec& weight = inputs[1];
  // An engine with fast_few_rows takes less for few rows.
  return {inputs.size() == 3 && inputs[0].dtype == DType::float32 ? Widened::workspace(inputs[2]) : 0,
          multiply_transposed_scratch(row_count(inputs[0].shape), weight.shape[0], weight.shape[1], weight.dtype)};
}

OpScratch op_scratch(const BiasBackward& /*op*/, InputSpecs inputs, int /*threads*/) {
  return {0, {row_blocks(row_count(inputs[0].shape)).blocks * inputs[1].bytes()}};
}

}  // namespace maxtext
