#include "cli/bench/gemm_peak.h"

#include <dnnl.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/bench/protocol.h"

namespace maxtext::bench {

std::vector<float> random_values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint64_t state = seed;
  for (float& value : values) {
    // Knuth's MMIX generator; its upper bits are good.
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
  }
  return values;
}

SquareProduct::SquareProduct(std::int64_t size)
    : size_(size),
      a_(random_values(size * size, 1)),
      b_(random_values(size * size, 2)),
      c_(static_cast<std::size_t>(size * size)) {}

double SquareProduct::measure() {
  const double seconds = seconds_per_call([this] {
    const dnnl_status_t status =
        dnnl_sgemm('N', 'N', size_, size_, size_, 1.0F, a_.data(), size_, b_.data(), size_, 0.0F, c_.data(), size_);
    if (status != dnnl_success) fail("oneDNN sgemm of {0}x{0}x{0} failed", size_);
  });
  const auto n = static_cast<double>(size_);
  return 2 * n * n * n / seconds;
}

std::int64_t best_square_size(const std::vector<std::int64_t>& sizes, int rounds) {
  std::vector<std::vector<double>> rates(sizes.size());
  std::vector<std::unique_ptr<SquareProduct>> products;
  for (const std::int64_t size : sizes) products.push_back(std::make_unique<SquareProduct>(size));
  for (const auto& product : products) product->measure();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < products.size(); ++i) rates[i].push_back(products[i]->measure());
  }
  const auto best = std::ranges::max_element(rates, {}, [](const auto& list) { return median(list); });
  return sizes[static_cast<std::size_t>(best - rates.begin())];
}

}  // namespace maxtext::bench
