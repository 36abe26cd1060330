#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"

namespace maxtext {
namespace {

/// A tensor seen as [outer, bytes]: what is before an axis, and the bytes from the axis on.
struct Split {
  std::int64_t outer = 1;
  std::int64_t bytes = 1;
};

Split split_at(const TensorSpec& spec, int axis) {
  Split split;
  const auto at = static_cast<std::size_t>(axis);
  for (std::size_t i = 0; i < at; ++i) split.outer *= spec.shape[i];
  split.bytes = split.outer == 0 ? 0 : spec.bytes() / split.outer;
  return split;
}

/// What a copy of `bytes` costs, in elements of for_rows; a call costs as much as a few.
std::int64_t elements_like(std::int64_t bytes) { return bytes / 4 + 8; }

void copy_rows(std::int64_t rows, std::int64_t bytes, const std::byte* from, std::int64_t from_stride, std::byte* to,
               std::int64_t to_stride) {
  if (bytes == 0) return;
  for_rows(rows, elements_like(bytes), [&](std::int64_t row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, static_cast<std::size_t>(bytes));
  });
}

/// Bytes from one index of each dimension to the next.
std::vector<std::int64_t> byte_strides(const TensorSpec& spec) {
  std::vector<std::int64_t> strides(spec.shape.size());
  std::int64_t stride = dtype_size(spec.dtype);
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= spec.shape[i];
  }
  return strides;
}

}  // namespace

// These are always views; the engine never asks for them.
void run(CpuContext& /*context*/, const Reshape& /*op*/, Inputs /*inputs*/, Outputs /*outputs*/) {}
void run(CpuContext& /*context*/, const View& /*op*/, Inputs /*inputs*/, Outputs /*outputs*/) {}

void run(CpuContext& /*context*/, const Slice& op, Inputs inputs, Outputs outputs) {
  const Split from = split_at(inputs[0].spec(), op.axis);
  const Split to = split_at(outputs[0].spec(), op.axis);
  const std::int64_t size = inputs[0].dim(op.axis);
  const std::int64_t skipped = size == 0 ? 0 : from.bytes / size * op.start;
  copy_rows(to.outer, to.bytes, data<std::byte>(inputs[0]) + skipped, from.bytes, data<std::byte>(outputs[0]),
            to.bytes);
}

void run(CpuContext& /*context*/, const Concat& op, Inputs inputs, Outputs outputs) {
  const Split to = split_at(outputs[0].spec(), op.axis);
  std::byte* destination = data<std::byte>(outputs[0]);
  for (const Tensor& input : inputs) {
    const Split from = split_at(input.spec(), op.axis);
    copy_rows(from.outer, from.bytes, data<std::byte>(input), from.bytes, destination, to.bytes);
    destination += from.bytes;
  }
}

void run(CpuContext& /*context*/, const Transpose& op, Inputs inputs, Outputs outputs) {
  const TensorSpec& to = outputs[0].spec();
  // Trailing dimensions that keep their place are copied as one run.
  std::size_t moved = op.permutation.size();
  std::int64_t run_bytes = dtype_size(to.dtype);
  while (moved > 0 && op.permutation[moved - 1] == static_cast<int>(moved - 1)) run_bytes *= to.shape[--moved];
  const std::vector<std::int64_t> from_strides = byte_strides(inputs[0].spec());
  const std::int64_t runs = run_bytes == 0 ? 0 : to.bytes() / run_bytes;
  const std::byte* from = data<std::byte>(inputs[0]);
  std::byte* destination = data<std::byte>(outputs[0]);
  for_rows(runs, elements_like(run_bytes), [&](std::int64_t index) {
    std::int64_t rest = index;
    std::int64_t offset = 0;
    for (std::size_t i = moved; i-- > 0;) {
      offset += rest % to.shape[i] * from_strides[static_cast<std::size_t>(op.permutation[i])];
      rest /= to.shape[i];
    }
    std::memcpy(destination + index * run_bytes, from + offset, static_cast<std::size_t>(run_bytes));
  });
}

void run(CpuContext& /*context*/, const Take& op, Inputs inputs, Outputs outputs) {
  const std::int64_t rows = inputs[0].dim(0);
  const std::int64_t count = inputs[1].dim(0);
  const std::int64_t bytes = rows == 0 ? 0 : inputs[0].spec().bytes() / rows;
  const auto* index = data<std::int32_t>(inputs[1]);
  for (std::int64_t i = 0; i < count; ++i) {
    if (index[i] < 0 || index[i] >= rows) fail("{}: index {} at {} is not within [0, {})", op.name, index[i], i, rows);
  }
  const std::byte* from = data<std::byte>(inputs[0]);
  std::byte* to = data<std::byte>(outputs[0]);
  for_rows(count, elements_like(bytes), [&](std::int64_t i) {
    std::memcpy(to + i * bytes, from + index[i] * bytes, static_cast<std::size_t>(bytes));
  });
}

}  // namespace maxtext
