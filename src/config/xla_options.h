// Which engine runs a configuration, on what hardware, and what the xla engine is told. The keys stand in
// config/keys_engine.cc.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/compile_topology.h"
#include "config/config.h"
#include "config/hardware.h"

namespace maxtext {

enum class EngineKind { native, xla };

/// "native" or "xla".
std::string_view engine_name(EngineKind engine);

/// A flag of XLA's compiler: its name without dashes, and its value as boolean, integer, real or text, whichever it
/// first is. XLA takes a boolean only as one.
struct XlaFlag {
  std::string name;
  Value value;

  bool operator==(const XlaFlag&) const = default;
};

/// Flags of "--xla_a=true --xla_b=3 --xla_c", the last of which is true; a later one replaces an earlier one of its
/// name. Quotes around the whole text are dropped. Throws ConfigError that begins with `key`.
std::vector<XlaFlag> parse_xla_flags(std::string_view text, std::string_view key);

struct XlaOptions {
  /// `xla_plugin_path`; empty: look for an installed plugin.
  std::filesystem::path plugin_path;
  /// `xla_dump_to`; empty: write nothing.
  std::filesystem::path dump_directory;
  /// `xla_verify_first_step`.
  bool verify_first_step = false;
  /// `jax_cache_dir` with a leading `~/` replaced by the home directory; empty: compiled programs are not kept.
  std::filesystem::path cache_directory;
  /// `compile_xla_flags`.
  std::vector<XlaFlag> compiler_flags;
};

struct EngineChoice {
  EngineKind engine = EngineKind::native;
  /// `hardware`, or that of compile_topology where only the latter was given.
  Hardware hardware = Hardware::cpu;
  /// dtype=bfloat16: activations, and the weights that meet them, are bfloat16; float32 otherwise.
  bool bfloat16 = false;
  /// `compile_topology`, an entry of the table in config/compile_topology.h; null where it is empty.
  const CompileTopology* topology = nullptr;
  /// Slices of `topology`: `compile_topology_num_slices`, else `num_slices`, else the product of the dcn axes.
  int slices = 1;
  XlaOptions xla;
};

/// Throws ConfigError where the keys exclude each other: the native engine on a TPU or GPU, or with bfloat16, or with
/// keys of the xla engine; a topology that is unknown or of other hardware; flags that are none.
EngineChoice engine_choice(const Config& config);

}  // namespace maxtext
