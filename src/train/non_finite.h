// Which tensor went bad first: the name in the message of abort_on_nan_loss and abort_on_inf_loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace maxtext {

struct NonFiniteTensor {
  std::size_t index = 0;
  std::string name;
  /// NaN or infinity.
  double sum_of_squares = 0;
};

/// The first tensor, in the order given, whose sum of squares is NaN or infinite: one element of it is, or the sum
/// overflows, which for float32 sums in double means that an element is. Nothing when all are finite. Costs one pass
/// over numbers that the gradient norm needs anyway. Throws std::logic_error when the two lists differ in length.
std::optional<NonFiniteTensor> first_non_finite(std::span<const double> sums_of_squares,
                                                std::span<const std::string> names);

/// "loss is nan at step 7; first tensor that is not finite: gradient of model.norm.weight", with the
/// tensor's name as it is; without the second half when there is none. A finite loss was not the reason: "gradient norm
/// is not finite at step 7, loss 6.2; ...".
std::string describe_non_finite(std::int64_t step, double loss, const std::optional<NonFiniteTensor>& tensor);

}  // namespace maxtext
