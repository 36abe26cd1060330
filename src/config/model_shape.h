// The dimensions of a model, resolved: what the decoder is built from. Made from a Config here, or from a Hugging Face
// config.json in the model layer; both fill the same struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxtext {

class Config;

/// Rotary position embedding. inv_freq_i = theta^(-2i/head_dim), then by type:
/// plain: as it is; linear: divided by `factor`; llama3: with wavelength = 2*pi/inv_freq and
/// L = original_max_position_embeddings, unchanged where wavelength < L/high_freq_factor, divided by `factor` where
/// wavelength > L/low_freq_factor, and blended in between (Llama 3.1); yarn: by parts between beta_fast and beta_slow
/// turns within L (YaRN; the formula is in ops/rope_frequencies.h), with cos and sin times attention_factor.
enum class RopeType { plain, linear, llama3, yarn };

struct RopeShape {
  RopeType type = RopeType::plain;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
  double beta_fast = 32;
  double beta_slow = 1;
  /// yarn: the parts begin and end at whole dimensions.
  bool truncate = true;
  /// yarn: what cos and sin are multiplied with, and so q·k with its square.
  double attention_factor = 1;
  bool operator==(const RopeShape&) const = default;
};

/// The gate of the MLP: silu, or gelu by its tanh form (Hugging Face's gelu_pytorch_tanh, MaxText's gelu).
enum class MlpActivation { silu, gelu_tanh };

struct ModelShape {
  /// Hugging Face's `model_type`: llama, mistral, qwen2, qwen3, gemma2 or gemma3 (there gemma3_text).
  std::string family = "llama";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0;
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  double rms_norm_eps = 1e-5;
  RopeShape rope;
  /// The rotary embedding of layers with a window, where it is another than `rope` (Gemma 3).
  std::optional<RopeShape> local_rope;
  /// The output head is the embedding: there is no `lm_head.weight`.
  bool tie_word_embeddings = false;
  /// Biases on the query, key and value projections (not on the output projection).
  bool attention_bias = false;
  /// RMSNorm over head_dim on each head of q and k, before the rotary embedding.
  bool qk_norm = false;
  /// One entry per layer: how many keys a query sees, itself included; 0 sees all earlier ones.
  std::vector<std::int64_t> layer_windows;
  /// What q.k is multiplied with; always explicit, 1/sqrt(head_dim) unless configured.
  double query_scale = 0.0;
  /// Attention scores s become softcap·tanh(s/softcap), and the output logits likewise; 0: they stay (Gemma 2).
  double attention_softcap = 0.0;
  double final_softcap = 0.0;
  // What follows goes with the family; see set_family_constants.
  MlpActivation activation = MlpActivation::silu;
  /// Every RMSNorm multiplies by norm_weight_offset + weight.
  double norm_weight_offset = 0.0;
  /// RMSNorms on the outputs of attention and MLP too, before they are added to the residual stream.
  bool post_norms = false;
  /// Embeddings are multiplied with this before the first layer.
  double embedding_scale = 1.0;
  /// Longest sequence the model is meant for; written to config.json, limits nothing here.
  std::int64_t max_position_embeddings = 0;

  bool operator==(const ModelShape&) const = default;
};

/// True for gemma2 and gemma3.
bool is_gemma(const ModelShape& shape);

/// Sets what a family fixes whatever its configuration says, from shape.family and shape.hidden_size. Gemma 2 and 3:
/// the gate is gelu_tanh, norms multiply by 1 + weight and follow attention and MLP too, embeddings are multiplied by
/// sqrt(hidden_size).
void set_family_constants(ModelShape& shape);

/// The rotary embedding of a layer.
const RopeShape& layer_rope(const ModelShape& shape, std::int64_t layer);

/// The shape that the model keys of `config` describe, after `global_parameter_scale`. Throws ConfigError naming the
/// key when dimensions do not fit together (query heads not a multiple of kv heads, odd head_dim, ...).
ModelShape model_shape(const Config& config);

/// Number of trainable parameters, each logical element once: embedding V*E, per layer two norms 2E (with post_norms
/// 4E), projections E*D*(2*Hq + 2*Hkv), biases D*(Hq + 2*Hkv), q/k norms 2D and gated MLP 3*E*M, final norm E, and the
/// head V*E when it is not tied.
std::int64_t parameter_count(const ModelShape& shape);

}  // namespace maxtext
