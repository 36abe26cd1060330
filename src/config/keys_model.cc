#include "config/key_groups.h"

namespace maxtext {
namespace {

KeyGroup dimension_keys() {
  return {
      "Model",
      {
          text_key("decoder_block", "llama2", "Model family, which decides the names in checkpoints")
              .one_of({"llama2", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"})
              .not_yet({"default", "gemma", "gemma4", "gpt3", "gpt_oss", "mixtral", "deepseek", "llama4", "qwen3_moe",
                        "qwen3_next", "olmo3", "simple", "simple_mlp"}),
          integer_key("global_parameter_scale", 1,
                      "Power of two that multiplies the size: doubles heads and mlp, then embedding, then layers, "
                      "in turn")
              .at_least(1)
              .at_most(32768),
          integer_key("vocab_size", 32000, "Rows of the embedding").at_least(1).at_most(2147483647),
          integer_key("base_emb_dim", 2048, "Width of the residual stream").at_least(1).at_most(16777216),
          integer_key("base_num_query_heads", 16, "Query heads").at_least(1).at_most(65536),
          integer_key("base_num_kv_heads", 16, "Key/value heads, a divisor of the query heads")
              .at_least(1)
              .at_most(65536),
          integer_key("head_dim", 128, "Width of a head, even").at_least(2).at_most(65536),
          integer_key("base_mlp_dim", 7168, "Width of the gated MLP").at_least(1).at_most(16777216),
          integer_key("base_num_decoder_layers", 16, "Layers").at_least(1).at_most(65536),
          list_key("mlp_activations", {"silu", "linear"},
                   "Gate and input of the MLP: silu, or for Gemma gelu (in its tanh form)")
              .one_of({"silu", "gelu", "linear"})
              .not_yet({"relu", "tanh", "sigmoid"}),
          real_key("normalization_layer_epsilon", 1e-5, "Epsilon of every RMSNorm").more_than(0),
          boolean_key("use_post_attn_norm", false, "RMSNorm on the output of attention (gemma2, gemma3)"),
          boolean_key("use_post_ffw_norm", false, "RMSNorm on the output of the MLP (gemma2, gemma3)"),
          boolean_key("logits_via_embedding", false, "The output head is the embedding (tied weights)"),
          real_key("final_logits_soft_cap", 0, "Output logits x become cap*tanh(x/cap) (Gemma 2: 30); 0 leaves them")
              .at_least(0),
      }};
}

KeyGroup attention_keys() {
  return {"Attention",
          {
              text_key("attention_type", "global", "Attention of every layer, unless attention_layer_pattern says more")
                  .one_of({"global", "local_sliding"})
                  .not_yet({"chunk", "mla", "full", "compressed", "block_diffusion"}),
              integer_key("sliding_window_size", 0, "Keys that a query of a local_sliding layer sees, itself included")
                  .at_least(0),
              list_key("attention_layer_pattern", {},
                       "Attention types of successive layers, repeated over the depth; empty: all attention_type")
                  .ours()
                  .one_of({"global", "local_sliding"}),
              boolean_key("attention_bias", false, "Biases on query, key and value projections (qwen2)"),
              boolean_key("use_qk_norm", false, "RMSNorm on each head of queries and keys (qwen3, gemma3)"),
              real_key("attn_logits_soft_cap", 0,
                       "Attention scores x become cap*tanh(x/cap) before the softmax (Gemma 2: 50); 0 leaves them")
                  .at_least(0),
              real_key("query_scale", 0,
                       "Factor of query times key; 0 is 1/sqrt(head_dim), 1 suits MaxText's llama2 and mistral "
                       "checkpoints, whose query weights contain it")
                  .ours()
                  .at_least(0),
          }};
}

KeyGroup rope_keys() {
  return {
      "Rotary embedding",
      {
          text_key("rope_type", "default",
                   "Frequencies: plain (with rope_linear_scaling_factor), Llama 3.1's or YaRN's")
              .one_of({"default", "llama3.1", "yarn"}),
          real_key("rope_max_timescale", 10000, "Base of the frequencies, Hugging Face's rope_theta")
              .more_than(1)
              .also_called("rope_theta"),
          real_key("local_rope_max_timescale", -1,
                   "The same for layers with a window, unscaled (gemma3); -1 takes that of the others")
              .more_than(1)
              .or_minus_one(),
          real_key("rope_linear_scaling_factor", 1, "Divides all frequencies of rope_type=default").at_least(1),
          boolean_key("rope_use_scale", true, "Scale the frequencies of rope_type=llama3.1; false leaves them plain"),
          real_key("rope_scaling_factor", 8, "llama3.1, yarn: divides low frequencies")
              .ours()
              .at_least(1)
              .also_called("rope_factor"),
          real_key("rope_low_freq_factor", 1, "llama3.1: wavelengths above original length / this are scaled")
              .ours()
              .more_than(0),
          real_key("rope_high_freq_factor", 4, "llama3.1: wavelengths below original length / this are kept")
              .ours()
              .more_than(0),
          integer_key("rope_original_max_position_embeddings", 8192,
                      "llama3.1, yarn: sequence length of the first training")
              .ours()
              .at_least(1)
              .also_called("original_max_position_embeddings"),
          real_key("beta_fast", 32, "yarn: dimensions that turn more often within the original length are kept")
              .more_than(0),
          real_key("beta_slow", 1, "yarn: dimensions that turn less often are divided by the factor").more_than(0),
          boolean_key("rope_truncate", true, "yarn: the parts begin and end at whole dimensions"),
          boolean_key("rope_attention_scaling", false,
                      "yarn: cos and sin times 0.1*ln(factor) + 1, as Hugging Face has it unless told otherwise"),
      }};
}

}  // namespace

std::vector<KeyGroup> model_keys() { return {dimension_keys(), attention_keys(), rope_keys()}; }

}  // namespace maxtext
