#include "ops/rope_frequencies.h"

#include <cmath>
#include <numbers>

namespace maxtext {

std::vector<double> rope_inverse_frequencies(std::int64_t head_dim, double theta) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return frequencies;
}

std::vector<double> linear_scaled(std::span<const double> inverse_frequencies, double factor) {
  std::vector<double> scaled;
  for (const double frequency : inverse_frequencies) scaled.push_back(frequency / factor);
  return scaled;
}

std::vector<double> llama3_scaled(std::span<const double> inverse_frequencies, double factor, double low_freq_factor,
                                  double high_freq_factor, double original_max_position) {
  std::vector<double> scaled;
  for (const double frequency : inverse_frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < original_max_position / high_freq_factor) {
      scaled.push_back(frequency);
    } else if (wavelength > original_max_position / low_freq_factor) {
      scaled.push_back(frequency / factor);
    } else {
      const double blend =
          (original_max_position / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
      scaled.push_back((1 - blend) * frequency / factor + blend * frequency);
    }
  }
  return scaled;
}

}  // namespace maxtext
