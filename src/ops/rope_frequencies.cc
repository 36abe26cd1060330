#include "ops/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace maxtext {

std::vector<double> rope_inverse_frequencies(std::int64_t head_dim, double theta) {
  if (head_dim <= 0 || head_dim % 2 != 0) fail("RoPE needs an even head_dim, not {}", head_dim);
  if (!(theta > 0)) fail("RoPE needs theta > 0, not {}", theta);
  std::vector<double> frequencies(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  return frequencies;
}

std::vector<double> linear_scaled(std::vector<double> inverse_frequencies, double factor) {
  for (double& frequency : inverse_frequencies) frequency /= factor;
  return inverse_frequencies;
}

std::vector<double> llama3_scaled(std::vector<double> inverse_frequencies, const Llama3Scaling& scaling) {
  for (double& frequency : inverse_frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < scaling.original_length / scaling.high_factor) continue;
    if (wavelength > scaling.original_length / scaling.low_factor) {
      frequency /= scaling.factor;
      continue;
    }
    const double smooth =
        (scaling.original_length / wavelength - scaling.low_factor) / (scaling.high_factor - scaling.low_factor);
    frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
  }
  return inverse_frequencies;
}

std::vector<double> yarn_inverse_frequencies(std::int64_t head_dim, double theta, const YarnScaling& scaling) {
  const auto dimensions = static_cast<double>(head_dim);
  const auto index_of = [&](double rotations) {
    return dimensions * std::log(scaling.original_length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = index_of(scaling.beta_fast);
  double high = index_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dimensions - 1);
  if (low == high) high += 0.001;

  std::vector<double> frequencies = rope_inverse_frequencies(head_dim, theta);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = (1 - ramp) * frequencies[i] + ramp * frequencies[i] / scaling.factor;
  }
  return frequencies;
}

double yarn_attention_factor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace maxtext
