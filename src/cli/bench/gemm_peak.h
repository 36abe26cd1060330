// The peak of matrix products: oneDNN's sgemm on square matrices. libxsmm adds nothing: beside it on two cores of a
// Zen 4 its parallel sgemm ran at 60 to 80% of oneDNN's rate on 1024³, 2048³ and 4096³.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace maxtext::bench {

/// Operands of one square product, on the OpenMP team of the calling thread.
class SquareProduct {
 public:
  explicit SquareProduct(std::int64_t size);
  /// FLOP/s of one timing: the product is repeated until 50 ms have passed.
  double measure();
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> c_;
};

/// The size with the best median of `rounds` timings, taken in turn. Its memory is given back.
std::int64_t best_square_size(const std::vector<std::int64_t>& sizes, int rounds = 3);

/// Values in [-1, 1), the same for the same seed.
std::vector<float> random_values(std::int64_t count, std::uint32_t seed);

}  // namespace maxtext::bench
