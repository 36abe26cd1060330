#include <algorithm>
#include <vector>

#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {
namespace {

/// Σ over [0, n) of block_sum(begin, length), blocks of fixed length computed in parallel and added in order.
template <typename BlockSum>
double sum_blocks(std::int64_t n, BlockSum block_sum) {
  constexpr std::int64_t kBlock = 16384;
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * kBlock;
    sums[static_cast<std::size_t>(block)] = block_sum(begin, std::min(kBlock, n - begin));
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void run(CpuContext& /*context*/, const Sum& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = data<T>(inputs[0]);
    *data<double>(outputs[0]) = sum_blocks(
        inputs[0].elements(), [&](std::int64_t begin, std::int64_t n) { return vector_loops<T>().sum(n, x + begin); });
  });
}

void run(CpuContext& /*context*/, const SumOfSquares& op, Inputs inputs, Outputs outputs) {
  const auto* ranges = data<std::int64_t>(inputs[1]);
  const std::int64_t count = inputs[1].dim(0);
  const std::int64_t size = inputs[0].elements();
  double* sums = data<double>(outputs[0]);
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = ranges[2 * i];
      const std::int64_t end = ranges[2 * i + 1];
      if (begin < 0 || end > size) fail("{}: range [{}, {}) is not within [0, {})", op.name, begin, end, size);
      const T* x = data<T>(inputs[0]) + begin;
      sums[i] = sum_blocks(std::max<std::int64_t>(0, end - begin), [&](std::int64_t from, std::int64_t n) {
        return vector_loops<T>().sum_of_squares(n, x + from);
      });
    }
  });
}

}  // namespace maxtext
