#include <algorithm>
#include <cstring>

#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"
#include "tensor/half.h"

namespace maxtext {
namespace {

std::span<std::byte> bytes_of(const Tensor& tensor, std::int64_t begin, std::int64_t n) {
  const std::int64_t size = dtype_size(tensor.dtype());
  return {data<std::byte>(tensor) + begin * size, static_cast<std::size_t>(n * size)};
}

/// 16-bit formats are exact in float, so rounding happens once, unless float64 meets a 16-bit format.
void cast_range(const Tensor& from, const Tensor& to, std::int64_t begin, std::int64_t n) {
  if (from.dtype() == DType::float64 && to.dtype() == DType::float64) {
    std::copy_n(data<double>(from) + begin, n, data<double>(to) + begin);
    return;
  }
  constexpr std::int64_t kBlock = 512;
  float block[kBlock];
  for (std::int64_t i = begin; i < begin + n; i += kBlock) {
    const std::int64_t length = std::min(kBlock, begin + n - i);
    const std::span<float> floats(block, static_cast<std::size_t>(length));
    convert_to_float(bytes_of(from, i, length), from.dtype(), floats);
    convert_from_float(floats, to.dtype(), bytes_of(to, i, length));
  }
}

template <typename T>
void fill(const Tensor& tensor, double value) {
  T* to = data<T>(tensor);
  for_ranges(tensor.elements(),
             [&](std::int64_t begin, std::int64_t n) { std::fill_n(to + begin, n, static_cast<T>(value)); });
}

}  // namespace

void run(CpuContext& /*context*/, const Add& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* a = data<T>(inputs[0]);
    const T* b = data<T>(inputs[1]);
    T* y = data<T>(outputs[0]);
    for_ranges(inputs[0].elements(),
               [&](std::int64_t begin, std::int64_t n) { vector_loops<T>().add(n, a + begin, b + begin, y + begin); });
  });
}

void run(CpuContext& /*context*/, const Scale& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = data<T>(inputs[0]);
    T* y = data<T>(outputs[0]);
    for_ranges(inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) {
      vector_loops<T>().scale(n, static_cast<T>(op.factor), x + begin, y + begin);
    });
  });
}

void run(CpuContext& /*context*/, const SoftCap& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = data<T>(inputs[0]);
    T* y = data<T>(outputs[0]);
    for_ranges(inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) {
      vector_loops<T>().soft_cap(n, static_cast<T>(op.cap), x + begin, y + begin);
    });
  });
}

void run(CpuContext& /*context*/, const MaskRows& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const std::int64_t width = inputs[0].shape().back();
    const T* const x = data<T>(inputs[0]);
    const float* const weights = data<float>(inputs[1]);
    T* const y = data<T>(outputs[0]);
    for_rows(inputs[1].elements(), width, [&](std::int64_t row) {
      if (weights[row] == 0) {
        std::fill_n(y + row * width, width, T{0});
      } else {
        std::copy_n(x + row * width, width, y + row * width);
      }
    });
  });
}

void run(CpuContext& /*context*/, const Cast& /*op*/, Inputs inputs, Outputs outputs) {
  for_ranges(inputs[0].elements(),
             [&](std::int64_t begin, std::int64_t n) { cast_range(inputs[0], outputs[0], begin, n); });
}

void run(CpuContext& /*context*/, const Assign& /*op*/, Inputs inputs, Outputs outputs) {
  const std::byte* from = data<std::byte>(inputs[0]);
  std::byte* to = data<std::byte>(outputs[0]);
  for_ranges(inputs[0].spec().bytes(), [&](std::int64_t begin, std::int64_t n) {
    std::memmove(to + begin, from + begin, static_cast<std::size_t>(n));
  });
}

void run(CpuContext& /*context*/, const Fill& op, Inputs /*inputs*/, Outputs outputs) {
  const Tensor& to = outputs[0];
  switch (op.spec.dtype) {
    case DType::float32:
      return fill<float>(to, op.value);
    case DType::float64:
      return fill<double>(to, op.value);
    case DType::int32:
      return fill<std::int32_t>(to, op.value);
    case DType::int64:
      return fill<std::int64_t>(to, op.value);
    default:
      fail("{}: the cpu engine fills float32, float64, int32 and int64, not {}", op.name, dtype_name(op.spec.dtype));
  }
}

}  // namespace maxtext
