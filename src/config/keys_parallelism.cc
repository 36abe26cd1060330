#include "config/key_groups.h"

namespace maxtext {
namespace {

/// Far beyond any machine, and small enough that products do not overflow.
constexpr double kMostDevices = 1 << 20;

KeyGroup device_keys() {
  return {
      "Devices",
      {
          integer_key("num_devices", -1,
                      "Devices of the run; -1 takes those of the launcher (mpirun, srun), else of compile_topology, "
                      "else the product of the mesh axes")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices)
              .ours(),
          integer_key("threads_per_device", 0, "Threads of each device; 0 shares the cores out equally")
              .at_least(0)
              .at_most(65536)
              .ours(),
          real_key("collective_timeout_seconds", 300,
                   "A collective that takes longer ends the run, naming device, operation and shape")
              .at_least(0.001)
              .at_most(1e8)
              .ours(),
      }};
}

KeyGroup mesh_keys() {
  return {
      "Mesh",
      {
          integer_key("num_slices", -1, "Slices joined by the slow network (dcn); -1 is the product of the dcn axes")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("dcn_data_parallelism", -1, "Data parallelism across slices; one dcn axis may be -1")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("dcn_fsdp_parallelism", 1, "Sharding of weights and batch across slices")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("dcn_context_parallelism", 1, "Sharding of the sequence across slices")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("dcn_tensor_parallelism", 1, "Tensor parallelism across slices")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("ici_data_parallelism", 1, "Data parallelism inside a slice")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("ici_fsdp_parallelism", -1,
                      "Sharding of weights and batch inside a slice; one ici axis may be -1 and takes the devices "
                      "that the others leave (1 without a launcher and without num_devices)")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key("ici_context_parallelism", 1, "Sharding of the sequence inside a slice")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
          integer_key(
              "ici_tensor_parallelism", 1,
              "Tensor parallelism inside a slice: devices over which heads, the MLP's width and the vocabulary are cut")
              .at_least(1)
              .or_minus_one()
              .at_most(kMostDevices),
      }};
}

KeyGroup context_keys() {
  return {
      "Context parallelism",
      {
          text_key("context_parallel_strategy", "all_gather", "How queries meet the keys and values of other devices")
              .one_of({"all_gather"})
              .not_yet({"ring", "ulysses", "usp"}),
          boolean_key("context_parallel_load_balance", true,
                      "Reorder tokens so that every device has the same attention work; false is "
                      "context_parallel_reorder_strategy=none"),
          text_key("context_parallel_reorder_strategy", "auto",
                   "How tokens are dealt to devices; auto takes the one with the least imbalance")
              .one_of({"auto", "dual_chunk_swap", "striped", "balanced", "none"}),
          text_key("context_sharding", "context", "Mesh axis that shards the sequence")
              .one_of({"context"})
              .not_yet({"expert"}),
      }};
}

KeyGroup memory_keys() {
  return {"Memory",
          {
              text_key("remat_policy", "full",
                       "What backward recomputes: full keeps only the input of each layer, minimal keeps the results "
                       "of the projections, none keeps those of attention, too")
                  .one_of({"full", "minimal", "none"})
                  .not_yet({"minimal_with_context", "minimal_flash", "minimal_with_quantization",
                            "minimal_with_context_and_quantization", "save_dot_with_context_except_mlp",
                            "save_dot_except_mlpwi", "save_dot_except_mlp", "save_qkv_proj", "save_out_proj",
                            "qkv_proj_offloaded", "minimal_offloaded", "custom"}),
          }};
}

}  // namespace

std::vector<KeyGroup> parallelism_keys() { return {device_keys(), mesh_keys(), context_keys(), memory_keys()}; }

}  // namespace maxtext
