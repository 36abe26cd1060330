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

/// YaRN's "NTK by parts" (Peng et al. 2023, section 3.2). A dimension that turns r times within L = original_length is
/// index(r) = D·ln(L / (2π·r)) / (2·ln theta) = i; with low = index(beta_fast), high = index(beta_slow) (rounded
/// outwards when `truncate`, and cut to [0, D−1]) and ramp_i = clamp((i − low) / (high − low), 0, 1), frequency i
/// becomes (1 − ramp_i)·f_i + ramp_i·f_i / factor. Cuts, rounding and the ramp over i are those of transformers.
struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_length = 8192;
  bool truncate = true;
};
std::vector<double> yarn_inverse_frequencies(std::int64_t head_dim, double theta, const YarnScaling& scaling);

/// What YaRN multiplies cos and sin with unless told otherwise: 0.1·mscale·ln(factor) + 1, and 1 for factor <= 1
/// (section 3.4 of the paper; mscale is DeepSeek's).
double yarn_attention_factor(double factor, double mscale = 1);

}  // namespace maxtext
