#include "train/non_finite.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace maxtext {

std::optional<NonFiniteTensor> first_non_finite(std::span<const double> sums_of_squares,
                                                std::span<const std::string> names) {
  if (sums_of_squares.size() != names.size()) {
    throw std::logic_error(fmt::format("first_non_finite: {} sums for {} names", sums_of_squares.size(), names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!std::isfinite(sums_of_squares[i])) return NonFiniteTensor{i, names[i], sums_of_squares[i]};
  }
  return std::nullopt;
}

std::string describe_non_finite(std::int64_t step, double loss, const std::optional<NonFiniteTensor>& tensor) {
  std::string message = std::isfinite(loss) ? fmt::format("gradient norm is not finite at step {}, loss {}", step, loss)
                                            : fmt::format("loss is {} at step {}", loss, step);
  if (tensor) message += fmt::format("; first tensor that is not finite: {}", tensor->name);
  return message;
}

}  // namespace maxtext
