// Traces the program of one device to StableHLO text. An op writes its lines when it is called; nothing is computed
// until the program is compiled and run (engines/xla/replicas.h), as one replica per device of the mesh.
//
// This is a spike: it proves that the model's code, the tape and `repeat` run on a compiling engine unchanged. It knows
// the ops of the decoder's training step only, unrolls repeated layers and keeps dense attention scores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/xla/host_array.h"
#include "engines/xla/xla_context.h"
#include "ops/engine.h"

namespace maxtext {

class XlaEngine final : public Engine {
 public:
  /// Traces the program of `device`; all devices of the mesh trace the same text.
  XlaEngine(Mesh mesh, int device);
  XlaEngine(const XlaEngine&) = delete;
  XlaEngine& operator=(const XlaEngine&) = delete;

  /// Memory inside the program. It reads as zeros before it is written.
  Tensor allocate(const TensorSpec& spec) override;
  /// An argument of the program: shards live from step to step. Zeros until `write`.
  Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) override;
  /// An argument of the program.
  Tensor input(const TensorSpec& spec, std::span<const std::byte> bytes) override;
  /// Sets the host's copy of an argument. Throws Error for memory inside the program, and for an argument that the
  /// traced program has written to.
  void write(const Tensor& tensor, std::span<const std::byte> source) override;

  /// Makes the memory behind `tensor`, as the program leaves it, a result of the program.
  void add_result(const Tensor& tensor);
  /// A result of the last run, or the host's copy of an argument that the program has not written to. Throws Error for
  /// other memory, and for a result before a run.
  void read(const Tensor& tensor, std::span<std::byte> destination) override;

  bool has_data() const override { return true; }
  const Mesh& mesh() const override { return mesh_; }
  int device() const override { return device_; }

  /// The program so far as a module with one function, `main`: arguments in the order in which they were made,
  /// results in the order of `add_result`.
  std::string module_text() const;
  const std::vector<HostArray>& arguments() const { return arguments_; }
  /// Specs of the results in their order.
  std::vector<TensorSpec> result_specs() const;
  /// What a run returned. Throws Error where specs differ from result_specs().
  void set_results(std::vector<HostArray> results);

 protected:
  void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) override;

 private:
  Tensor argument(const TensorSpec& spec);
  /// The host's bytes of what `read` may read.
  const std::vector<std::byte>& host_copy(const Tensor& tensor) const;

  Mesh mesh_;
  int device_;
  StableHloWriter writer_;
  XlaContext context_;
  std::vector<HostArray> arguments_;
  std::vector<std::shared_ptr<Storage>> result_storages_;
  std::vector<HostArray> results_;
};

}  // namespace maxtext
