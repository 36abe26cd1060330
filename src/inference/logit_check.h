// Logits against logits: how far apart two models' predictions are (MaxText's forward_pass_logit_checker).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace maxtext {

/// A sequence with the logits that a reference model gave at each of its positions.
struct GoldenSequence {
  std::string prompt;  ///< may be empty
  std::vector<std::int32_t> ids;
  std::int64_t vocab_size = 0;
  std::vector<float> logits;  ///< [ids, vocab_size]
};

/// Of a .jsonl with lines {"prompt", "tokens": [T], "logits": [T][vocab]} (MaxText's), or of a folder (or .safetensors)
/// with tensors NAME.input_ids [T] and NAME.logits [T, vocab]. Throws ConfigError naming file, line or tensor for what
/// is missing or does not fit together.
std::vector<GoldenSequence> read_golden_logits(const std::filesystem::path& path);

struct RankedToken {
  std::int32_t id = 0;
  float logit = 0;
};

struct LogitComparison {
  double max_abs_difference = 0;
  /// max |difference| / |golden|, where golden is not 0.
  double max_rel_difference = 0;
  std::int64_t worst_position = 0;  ///< of the largest absolute difference
  /// max (|difference| − rtol · |golden|): within the tolerances when at most atol (numpy's allclose).
  double max_excess = 0;
  /// KL(P_golden || Q) of each position, in nats.
  std::vector<double> kl;
  std::int64_t worst_kl_position = 0;
  /// The most probable tokens of the last position, by the golden logits and by the others.
  std::vector<RankedToken> golden_top;
  std::vector<RankedToken> actual_top;

  double max_kl() const;
};

/// Both [T, vocab_size]. With `clip_epsilon` > 0 probabilities below it count as it in KL. Throws Error for sizes that
/// differ. NaN in either makes differences and KL NaN.
LogitComparison compare_logits(std::span<const float> golden, std::span<const float> actual, std::int64_t vocab_size,
                               double rtol, double clip_epsilon = 0);

}  // namespace maxtext
