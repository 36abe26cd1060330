// Few rows against a weight as it is stored: float32, bfloat16 or float16. Compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/instruction_set.h"
#include "tensor/dtype.h"

namespace maxtext {

/// A packed row of x is as long as its depth rounded up to this: two vectors of the widest instruction set.
constexpr std::int64_t packed_row_step = 32;

/// y [rows, outputs] = x [rows, depth] · weight [outputs, depth]ᵀ.
struct FewRowsProduct {
  std::int64_t rows;
  std::int64_t outputs;
  std::int64_t depth;
  const float* x;  ///< rows packed by `pack_row`, `packed_depth` apart
  std::int64_t packed_depth;
  const std::byte* weight;  ///< a multiple of its elements' size, as are the addresses that `widen` takes
  float* y;
};

/// The kernels of one instruction set for one dtype of weights. 16-bit elements are widened, exactly, as they are read;
/// products and sums are float32.
struct WeightRows {
  /// One row of x in the order in which `multiply` reads it, padded with zeros to a multiple of packed_row_step.
  void (*pack_row)(const float* x, std::int64_t depth, float* to);
  /// The outputs [first, last), in the calling thread. An element of y is a sum in an order fixed by the depth,
  /// whatever shares the call.
  void (*multiply)(const FewRowsProduct& product, std::int64_t first, std::int64_t last);
  /// `count` elements as floats, exact.
  void (*widen)(const std::byte* from, std::int64_t count, float* to);
};

/// For float32, bfloat16 and float16; throws Error for another dtype. The CPU must execute `set`.
const WeightRows& weight_rows(InstructionSet set, DType stored);

}  // namespace maxtext
