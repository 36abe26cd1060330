#include <algorithm>

#include "engines/cpu/column_sums.h"
#include "engines/cpu/gemm.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {
namespace {

template <typename T>
void add_to_rows(std::int64_t rows, std::int64_t columns, const T* bias, T* y) {
  const auto& loops = vector_loops<T>();
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) loops.add(columns, y + row * columns, bias, y + row * columns);
}

}  // namespace

void run(CpuContext& context, const Linear& op, Inputs inputs, Outputs outputs) {
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
  return {0, multiply_transposed_scratch(row_count(inputs[0].shape), weight.shape[0], weight.shape[1], weight.dtype)};
}

OpScratch op_scratch(const BiasBackward& /*op*/, InputSpecs inputs, int /*threads*/) {
  return {0, {row_blocks(row_count(inputs[0].shape)).blocks * inputs[1].bytes()}};
}

}  // namespace maxtext
