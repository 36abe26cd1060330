// MaxText features that are not here yet. Their keys are known, so that the answer to switching one on is "not
// implemented yet" instead of "unknown key", and a command line that spells out the neutral value runs.
#include "config/key_groups.h"

namespace maxtext {
namespace {

Key fixed(Key key) {
  key.status = KeyStatus::fixed;
  return key;
}

std::vector<Key> off_switches() {
  std::vector<Key> keys;
  for (const char* name : {"attention_sink",
                           "share_kv_projections",
                           "use_dpo",
                           "use_sft",
                           "use_multimodal",
                           "use_audio",
                           "use_indexer",
                           "use_qk_clip",
                           "use_mrope",
                           "moba",
                           "mlp_bias",
                           "skip_step_on_spikes",
                           "enable_diloco",
                           "enable_rampup_batch_size",
                           "temperature_tuning",
                           "use_qwix_quantization",
                           "optimizer_memory_host_offload",
                           "parameter_memory_host_offload",
                           "use_untrainable_positional_embedding",
                           "enable_emergency_checkpoint",
                           "enable_multi_tier_checkpointing",
                           "elastic_enabled",
                           "normalize_embedding_logits"}) {
    keys.push_back(fixed(boolean_key(name, false, "Not implemented yet")));
  }
  return keys;
}

std::vector<Key> other_axes() {
  std::vector<Key> keys;
  for (const char* level : {"dcn", "ici"}) {
    for (const char* axis : {"diloco", "fsdp_transpose", "sequence", "context_usp_ulysses", "tensor_transpose",
                             "tensor_sequence", "pipeline", "expert"}) {
      keys.push_back(
          fixed(integer_key(std::string(level) + "_" + axis + "_parallelism", 1, "Mesh axis not implemented yet")));
    }
  }
  return keys;
}

std::vector<Key> neutral_numbers() {
  return {
      fixed(integer_key("dcn_context_autoregressive_parallelism", 1, "Mesh axis not implemented yet")),
      fixed(integer_key("dcn_autoregressive_parallelism", 1, "Mesh axis not implemented yet")),
      fixed(integer_key("num_experts", 1, "Mixture of experts is not implemented yet")),
      fixed(integer_key("mtp_num_layers", 0, "Multi-token prediction is not implemented yet")),
      fixed(integer_key("chunk_attn_window_size", 0, "Chunked attention is not implemented yet")),
      fixed(integer_key("nope_layer_interval", -1, "Layers without rotary embedding are not implemented yet")),
      fixed(integer_key("trainable_position_size", -1, "Trained position embeddings are not implemented yet")),
      fixed(integer_key("attention_output_dim", -1, "Not implemented yet")),
      fixed(integer_key("global_head_dim", 0, "Not implemented yet")),
      fixed(integer_key("global_num_kv_heads", 0, "Not implemented yet")),
      fixed(integer_key("num_kv_shared_layers", 0, "Not implemented yet")),
      fixed(integer_key("mhc_expansion_rate", 1, "Hyper-connections are not implemented yet")),
      fixed(integer_key("rope_min_timescale", 1, "Shortest timescale of the rotary embedding; only 1")),
      fixed(real_key("global_rope_max_timescale", -1, "Another timescale for global layers is not implemented yet")),
      fixed(real_key("partial_rotary_factor", 1, "Partial rotary embedding is not implemented yet")),
      fixed(real_key("mlp_activations_limit", -1, "Not implemented yet")),
      fixed(real_key("dropout_rate", 0, "Dropout is not implemented yet")),
      fixed(real_key("dense_init_scale", 1, "Not implemented yet")),
      fixed(real_key("target_eval_loss", 0, "Stopping at an evaluation loss is not implemented yet")),
      fixed(real_key("eval_per_device_batch_size", 0, "Evaluation has the batch of training")),
      fixed(integer_key("eval_start_step", 0, "Evaluation starts with training")),
      fixed(integer_key("reuse_example_batch", 0, "Not implemented yet")),
      fixed(integer_key("ring_scan_unroll", 1, "Belongs to the strategies ring and usp, not implemented yet")),
  };
}

std::vector<Key> neutral_texts() {
  return {
      fixed(text_key("quantization", "", "Quantised training is not implemented yet")),
      fixed(text_key("custom_mesh_and_rule", "",
                     "Mesh rules are fixed: batch over data and fsdp, sequence over "
                     "context, weights over fsdp and context")),
      fixed(text_key("custom_mesh_and_rule_for_eval", "", "Mesh rules are fixed")),
      fixed(text_key("ulysses_context_sharding", "context_usp_ulysses", "Belongs to the strategy usp")),
      fixed(text_key("training_objective", "causal_lm", "Other objectives are not implemented yet")),
      fixed(text_key("model_call_mode", "", "Only training yet")),
      fixed(text_key("mu_dtype", "", "First moments have the type of the weights").one_of({"", "float32"})),
      fixed(text_key("grad_dtype", "float32", "Gradients are float32")),
      fixed(list_key("adamw_mask", {}, "Weight decay acts on every parameter")),
      fixed(list_key("trainable_parameters_mask", {}, "Every parameter is trained")),
      fixed(text_key("lora_input_adapters_path", "", "Not implemented yet")),
      fixed(text_key("hf_lora_adapter_path", "", "Not implemented yet")),
  };
}

}  // namespace

std::vector<KeyGroup> fixed_keys() {
  KeyGroup group{"Not here yet", {}};
  for (auto part : {off_switches(), other_axes(), neutral_numbers(), neutral_texts()}) {
    group.keys.insert(group.keys.end(), part.begin(), part.end());
  }
  return {group};
}

}  // namespace maxtext
