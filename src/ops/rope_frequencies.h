// Inverse frequencies of rotary embeddings and their scalings for long contexts, in double.
#pragma once

#include <cstdint>
#include <vector>

namespace maxtext {

/// theta^(−2i/D) for i = 0 … D/2−1 (Su et al. 2021). Throws Error unless head_dim is even and positive and theta > 0.
std::vector<double> rope_inverse_frequencies(std::int64_t head_dim, double theta);

/// Position interpolation (Chen et al. 2023): each divided by `factor`.
std::vector<double> linear_scaled(std::vector<double> inverse_frequencies, double factor);

/// Llama 3.1's scaling, by wavelength λ = 2π / frequency and L = original_length: unchanged where λ < L/high_factor;
/// divided by `factor` where λ > L/low_factor; between them (1−s)·f/factor + s·f with
/// s = (L/λ − low_factor) / (high_factor − low_factor).
struct Llama3Scaling {
  double factor = 8;
  double low_factor = 1;
  double high_factor = 4;
  double original_length = 8192;
};
std::vector<double> llama3_scaled(std::vector<double> inverse_frequencies, const Llama3Scaling& scaling);

}  // namespace maxtext
