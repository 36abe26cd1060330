// MaxText keys that change no result here. They are accepted, so that its command lines run as they are, and named in
// one line of notice at start-up.
#include <array>

#include "config/key_groups.h"

namespace maxtext {
namespace {

struct IgnoredKeys {
  const char* reason;
  std::vector<const char*> names;
};

std::vector<IgnoredKeys> kernels() {
  return {
      {"Engines choose their kernels and tiles",
       {"sa_block_q",
        "sa_block_kv",
        "sa_block_kv_compute",
        "sa_block_q_dkv",
        "sa_block_kv_dkv",
        "sa_block_kv_dkv_compute",
        "sa_block_q_dq",
        "sa_block_kv_dq",
        "sa_use_fused_bwd_kernel",
        "sa_q_layout",
        "sa_k_layout",
        "sa_v_layout",
        "sa_fuse_reciprocal",
        "sa_use_base2_exp",
        "use_splash_scheduler",
        "use_tokamax_splash",
        "use_jax_splash",
        "use_ragged_attention",
        "ragged_block_size",
        "use_iota_embed",
        "fused_qkv",
        "fused_mlp",
        "num_vocab_tiling",
        "cost_estimate_flops_fwd",
        "cost_estimate_flops_bwd",
        "dq_reduction_steps",
        "use_max_logit_estimate",
        "enable_padding_causal_mask"}},
      {"Products accumulate, and softmax, logits and losses are computed, in float32",
       {"matmul_precision", "activations_in_float32", "float32_qk_product", "float32_logits", "logits_dot_in_fp32",
        "cast_logits_to_fp32"}},
      {"Layers always run in a loop, and checkpoints hold them one by one",
       {"scan_layers", "param_scan_axis", "force_unroll", "inhomogeneous_layer_cycle_interval",
        "scan_layers_per_stage"}},
      {"The dropout rate is 0", {"enable_dropout"}},
  };
}

std::vector<IgnoredKeys> machine() {
  return {
      {"Belongs to JAX or the way it is compiled and started",
       {"jax_distributed_initialization_timeout",
        "jax_debug_log_modules",
        "skip_jax_distributed_system",
        "compiled_trainstep_file",
        "internal_compile",
        "internal_compile_num_devices",
        "shard_mode",
        "shardy",
        "mesh_axes",
        "logical_axis_rules",
        "override_logical_axis_rules",
        "data_sharding",
        "input_data_sharding_logical_axes",
        "allow_split_physical_axes",
        "optimize_mesh_for_tpu_v6e",
        "custom_mesh",
        "sharding_tolerance",
        "shard_optimizer_over_data",
        "remove_size_one_mesh_axis_from_type",
        "enable_single_controller",
        "max_checkify",
        "max_inflight_computations",
        "enable_nnx",
        "pure_nnx",
        "pure_nnx_decoder",
        "debug_sharding",
        "dump_hlo",
        "dump_step",
        "dump_hlo_local_dir",
        "dump_hlo_gcs_dir",
        "dump_jaxpr",
        "check_vma",
        "collect_stack_trace",
        "stack_trace_to_cloud",
        "stack_trace_interval_seconds",
        "subslice_shape",
        "inference_server",
        "multi_sampling"}},
      {"There is no profiler yet",
       {"profiler", "upload_all_profiler_results", "skip_first_n_steps_for_profiler", "profiler_steps",
        "hide_profiler_step_metric", "profile_cleanly", "profile_periodically_period", "enable_jax_profiler",
        "jax_profiler_port"}},
      {"Every step goes to the log and to metrics_file",
       {"log_period",
        "enable_tensorboard",
        "use_vertex_tensorboard",
        "vertex_tensorboard_project",
        "vertex_tensorboard_region",
        "gcs_metrics",
        "save_config_to_gcs",
        "enable_wandb",
        "wandb_project_name",
        "wandb_run_name",
        "log_config",
        "enable_goodput_recording",
        "monitor_goodput",
        "goodput_upload_interval_seconds",
        "monitor_step_time_deviation",
        "step_deviation_interval_seconds",
        "enable_gcp_goodput_metrics",
        "enable_gcp_step_deviation_metrics",
        "report_heartbeat_metric_for_gcp_monitoring",
        "heartbeat_reporting_interval_in_seconds",
        "report_performance_metric_for_gcp_monitoring",
        "record_internal_nn_metrics",
        "enable_checkpoint_cloud_logger",
        "managed_mldiagnostics"}},
  };
}

std::vector<IgnoredKeys> files() {
  return {
      {"The initial state follows from init_weights_seed", {"save_checkpoint_on_start"}},
      {"Checkpoints are safetensors with Hugging Face names",
       {"checkpoint_storage_target_data_file_size_bytes", "checkpoint_storage_use_ocdbt",
        "checkpoint_storage_use_zarr3", "checkpoint_storage_concurrent_gb", "enable_single_replica_ckpt_restoring",
        "enable_continuous_checkpointing", "checkpoint_todelete_subdir", "checkpoint_todelete_full_path",
        "enable_orbax_v1", "checkpoint_conversion_fn", "source_checkpoint_layout", "checkpoint_is_quantized",
        "save_quantized_params_path", "colocated_python_checkpointing", "enable_autocheckpoint",
        "local_checkpoint_directory", "local_checkpoint_period"}},
      {"Belongs to dataset types that are not here",
       {"dataset_name",
        "eval_dataset_name",
        "train_split",
        "eval_split",
        "hf_path",
        "hf_name",
        "hf_data_dir",
        "hf_train_files",
        "hf_eval_split",
        "hf_eval_files",
        "hf_access_token",
        "grain_train_files",
        "grain_eval_files",
        "grain_train_mixture_config_path",
        "grain_file_type",
        "grain_packing_type",
        "grain_worker_count",
        "grain_worker_count_eval",
        "grain_per_worker_buffer_size",
        "grain_num_threads",
        "grain_prefetch_buffer_size",
        "grain_shuffle_buffer_size",
        "olmo_index_path",
        "expansion_factor_real_data",
        "max_corpus_chars",
        "tokenize_train_data",
        "tokenize_eval_data",
        "colocated_python_data_input"}},
      {"Rows are always full, and documents longer than a row continue in the next one",
       {"use_truncation", "generate_padding_batch_train", "generate_padding_batch_eval"}},
  };
}

std::vector<IgnoredKeys> later_features() {
  return {
      {"Generation has its own layout of caches, and reads prompts as they are",
       {"load_from_prefill_dir", "prefill_cache_dir", "prefill_cache_axis_order", "ar_cache_axis_order",
        "compute_axis_order", "reshape_q", "kv_quant_axis", "kv_quant_dtype", "stack_prefill_result_cache",
        "use_chunked_prefill", "use_chat_template", "chat_template", "chat_template_path", "return_log_prob"}},
      {"Belongs to remat_policy=custom",
       {"decoder_layer_input", "context", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo", "query_proj", "key_proj",
        "value_proj", "kv_proj", "qkv_proj", "out_proj", "attention_out"}},
      {"Rotary embeddings have no table, turn the pairs (i, i + head_dim/2), and know no DeepSeek",
       {"max_position_embeddings", "mscale", "rope_interleave"}},
      {"Belongs to quantised training",
       {"quant_cfg_path", "replicate_quant_scale", "quantization_local_shard_count", "constant_bound_config"}},
      {"Belongs to mixture of experts",
       {"num_experts_per_tok", "megablox", "sparse_matmul", "capacity_factor", "load_balance_loss_weight",
        "expert_shard_attention_option", "use_random_routing", "tile_batch_seq", "wi_tile_fwd_batch_seq"}},
      {"Belongs to the optimizers that are not here", {"muon_beta", "muon_weight_decay", "muon_consistent_rms"}},
      {"Belongs to pipeline parallelism",
       {"num_layers_per_pipeline_stage", "num_pipeline_repeats", "num_pipeline_microbatches",
        "pipeline_parallel_layers"}},
      {"Belongs to skip_step_on_spikes", {"skip_step_interval", "skip_step_scaling_factor"}},
  };
}

}  // namespace

std::vector<KeyGroup> ignored_keys() {
  KeyGroup group{"Accepted without effect", {}};
  for (const auto& part : {kernels(), machine(), files(), later_features()}) {
    for (const auto& [reason, names] : part) {
      for (const char* name : names) {
        Key key = text_key(name, "", reason);
        key.status = KeyStatus::ignored;
        group.keys.push_back(std::move(key));
      }
    }
  }
  return {group};
}

}  // namespace maxtext
