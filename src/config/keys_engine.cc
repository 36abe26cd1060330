#include "config/key_groups.h"

namespace maxtext {
namespace {

KeyGroup engine_choice_keys() {
  return {"Engine",
          {
              text_key("hardware", "cpu",
                       "What the run computes on. Left out, it is that of compile_topology; gpu_multiprocess is gpu")
                  .one_of({"cpu", "tpu", "gpu", "gpu_multiprocess"}),
              text_key("engine", "auto",
                       "native: own kernels, on the cpu; xla: one program per step, compiled by a PJRT plugin, on any "
                       "hardware; auto: native on the cpu, xla elsewhere")
                  .ours()
                  .one_of({"auto", "native", "xla"}),
          }};
}

KeyGroup xla_keys() {
  return {
      "XLA",
      {
          text_key("xla_plugin_path", "",
                   "PJRT plugin, a shared library; empty finds the one that scripts/install-xla fetched, or one of an "
                   "installed Python package")
              .ours(),
          text_key("jax_cache_dir", "~/.cache/maxtext/xla",
                   "Folder for compiled programs, for the next run; not used yet"),
          text_key("xla_dump_to", "", "Folder for the StableHLO text of compiled programs; empty writes none").ours(),
          boolean_key("xla_verify_first_step", false,
                      "Compare the first loss with that of the native engine; not implemented yet")
              .ours(),
          text_key("compile_xla_flags", "", "Flags of XLA's compiler, as \"--xla_name=value --xla_other=true\""),
          text_key("compile_topology", "",
                   "Accelerators to compile for without having them, as v5p-8, v6e-256 or h200-8; empty compiles for "
                   "those at hand"),
          integer_key("compile_topology_num_slices", -1,
                      "Slices of compile_topology; -1 takes num_slices, or the product of the dcn axes")
              .at_least(1)
              .or_minus_one()
              .at_most(1 << 20),
      }};
}

}  // namespace

std::vector<KeyGroup> engine_keys() { return {engine_choice_keys(), xla_keys()}; }

}  // namespace maxtext
