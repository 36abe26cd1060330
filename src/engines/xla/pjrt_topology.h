// Compiles StableHLO text ahead of time for devices that need not be there: what a program costs on a pod is known
// before one is hired. Built without the header of the C interface, `open` is an Error that says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engines/xla/compile_options.h"
#include "engines/xla/pjrt_options.h"

namespace maxtext {

/// Bytes on each device.
struct CompiledMemory {
  std::int64_t arguments = 0;
  std::int64_t results = 0;
  /// Of the results, what reuses the memory of donated arguments.
  std::int64_t aliased = 0;
  std::int64_t temporaries = 0;
  /// 0 on a GPU, whose compiler does not tell.
  std::int64_t code = 0;
  /// The most in use at any time, arguments and results with it.
  std::int64_t peak = 0;
};

/// A program in the compiler's own form.
struct OptimizedProgram {
  /// "hlo", "hlo_with_config" (protobuf messages) or "mlir".
  std::string format;
  std::string bytes;
};

/// A program compiled for a topology. Keeps nothing else alive.
class CompiledProgram {
 public:
  virtual ~CompiledProgram() = default;

  virtual double compile_seconds() const = 0;

  virtual const CompiledMemory& memory() const = 0;

  /// What the compiler made of the text. Throws Error with the plugin's words where it does not tell.
  virtual OptimizedProgram optimized() const = 0;

  /// What PjrtClient::load takes, with the same plugin on such devices.
  virtual std::string serialized() const = 0;
};

struct TopologyDevice {
  std::int64_t id = 0;
  /// Place in the interconnect; empty where the plugin does not tell.
  std::vector<std::int64_t> coordinates;
  /// What a program can use; 0 where the plugin does not tell.
  std::int64_t memory_bytes = 0;
};

class PjrtTopology {
 public:
  /// Loads the plugin, for the life of the process, and describes devices with it. `name` and `options` are the
  /// plugin's own: "v6e:2x2" for libtpu; for CUDA any name, and the options `topology` ("1x1x8": partitions, hosts,
  /// devices of each host) and `target_config` (gpu_target_config). For libtpu, TPU_SKIP_MDS_QUERY and
  /// ALLOW_MULTIPLE_LIBTPU_LOAD are set in the environment unless they are: else it would ask for minutes after the
  /// machine's own TPU, and two processes could not use it at once. So this is to be called before other threads read
  /// the environment, and not in a process that runs on a TPU. Throws Error as PjrtClient::open does, and with the
  /// plugin's words for a name or an option that it does not know.
  static std::unique_ptr<PjrtTopology> open(const std::filesystem::path& plugin, const std::string& name,
                                            const PjrtOptions& options = {});

  virtual ~PjrtTopology() = default;

  /// In the order of ids.
  virtual const std::vector<TopologyDevice>& devices() const = 0;

  /// Throws ConfigError for another number of replicas than devices, Error with the compiler's words, also where the
  /// program does not fit into the devices' memory (libtpu only: others report a peak beyond it).
  virtual std::unique_ptr<CompiledProgram> compile(const std::string& module_text,
                                                   const XlaCompileOptions& options) const = 0;
};

}  // namespace maxtext
