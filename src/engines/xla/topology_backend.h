// Compiles programs for devices that are not there, instead of running them: what a step costs on a pod is known before
// one is hired. Arrays have shapes only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engines/xla/pjrt_error.h"
#include "engines/xla/pjrt_topology.h"
#include "engines/xla/xla_backend.h"

namespace maxtext {

class TopologyBackend final : public XlaBackend {
 public:
  /// Programs of `replicas` devices. Throws ConfigError where the topology has fewer.
  TopologyBackend(std::unique_ptr<PjrtTopology> topology, int replicas, XlaFlags flags);

  std::shared_ptr<const PjrtBuffer> put(int device, const TensorSpec& spec, std::span<const std::byte> bytes) override;
  /// Compiles. Throws Error with the compiler's words; that a program does not fit is an answer, see `refusal`.
  std::vector<std::shared_ptr<const PjrtBuffer>> run(int device, const XlaProgram& program) override;
  bool has_data() const override { return false; }

  /// The last program; null before the first, and where it does not fit.
  const CompiledProgram* compiled() const { return compiled_.get(); }
  /// Why the compiler found that the last program cannot fit a device; null where it compiled.
  const OutOfDeviceMemory* refusal() const { return refusal_.has_value() ? &*refusal_ : nullptr; }
  /// What the compiler took for the last program.
  double compile_seconds() const { return compile_seconds_; }
  /// What a program can use of each device; 0 where the plugin does not tell.
  std::int64_t device_memory_bytes() const { return topology_->devices().front().memory_bytes; }

 private:
  std::unique_ptr<PjrtTopology> topology_;
  XlaCompileOptions options_;
  std::unique_ptr<CompiledProgram> compiled_;
  std::optional<OutOfDeviceMemory> refusal_;
  double compile_seconds_ = 0;
};

}  // namespace maxtext
