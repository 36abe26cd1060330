// Inverse frequencies of rotary position embeddings, in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// theta^(-2i/head_dim) for i < head_dim/2.
std::vector<double> rope_inverse_frequencies(std::int64_t head_dim, double theta);

/// Linear position interpolation: every frequency divided by `factor` (Chen et al. 2023).
std::vector<double> linear_scaled(std::span<const double> inverse_frequencies, double factor);

/// Llama 3.1's scaling. With wavelength = 2π / frequency and L = original_max_position: unchanged below
/// L / high_freq_factor, divided by `factor` above L / low_freq_factor, and between them blended by
/// s = (L / wavelength − low_freq_factor) / (high_freq_factor − low_freq_factor): (1 − s)·f/factor + s·f.
std::vector<double> llama3_scaled(std::span<const double> inverse_frequencies, double factor, double low_freq_factor,
                                  double high_freq_factor, double original_max_position);

}  // namespace maxtext
