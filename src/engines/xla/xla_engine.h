// Traces the program of one device to StableHLO text. An op writes its lines when it is called, and nothing is computed
// until somebody reads a tensor: then all that was traced since the last time is one program, which is compiled (once
// for each text) and run as one replica per device of the mesh. Training reads once, at the end of a step, so a step is
// one program: forward, backward, reductions, clipping, update and metrics. What a program overwrites, it is given: the
// memory of weights and moments is used again.
//
// The text depends on shapes only, so a step is traced again each time and its compiled program is found by its text.
// Tracing costs microseconds an op, and repeated layers are traced once (`loop`).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/xla/xla_backend.h"
#include "engines/xla/xla_collectives.h"
#include "engines/xla/xla_context.h"
#include "ops/engine.h"

namespace maxtext {

class XlaEngine final : public Engine {
 public:
  /// The program of `device`; all devices of the mesh trace the same text. Throws Error unless the mesh has it.
  XlaEngine(Mesh mesh, int device, std::shared_ptr<XlaBackend> backend);
  ~XlaEngine() override;
  XlaEngine(const XlaEngine&) = delete;
  XlaEngine& operator=(const XlaEngine&) = delete;

  /// It reads as zeros before it is written.
  Tensor allocate(const TensorSpec& spec) override;
  Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) override;
  Tensor allocate_state(const TensorSpec& spec) override;
  Tensor input(const TensorSpec& spec, std::span<const std::byte> bytes) override;
  void write(const Tensor& tensor, std::span<const std::byte> source) override;
  /// Runs what was traced if the tensor's contents depend on it. Throws Error inside a loop.
  void read(const Tensor& tensor, std::span<std::byte> destination) override;
  /// A copy on the host that stays until the tensor's memory changes.
  std::span<const std::byte> host_bytes(const Tensor& tensor) override;

  bool compiles_shapes() const override { return true; }
  void run_pending() override { run(); }

  bool traces_loops() const override { return true; }
  void loop(const LoopRange& range, const std::function<void(std::int64_t)>& body) override;
  std::vector<Tensor> allocate_stack(std::int64_t rows, const TensorSpec& spec) override;
  std::vector<Tensor> allocate_shard_stack(std::int64_t rows, const TensorSpec& spec, AxisSet axes) override;
  std::vector<Tensor> zeros_stack(std::int64_t rows, const TensorSpec& spec) override;

  bool has_data() const override { return backend_->has_data(); }
  const Mesh& mesh() const override { return mesh_; }
  int device() const override { return device_; }

  /// Runs what was traced, if anything was.
  void run();
  /// The text of the last program that ran, and the collectives in it.
  const std::string& last_program() const { return last_program_; }
  const std::vector<XlaCollective>& last_collectives() const { return last_collectives_; }

 protected:
  void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) override;

 private:
  Tensor allocate_storage(const TensorSpec& spec);
  std::vector<Tensor> rows_of(const Tensor& stack) const;
  std::shared_ptr<const PjrtBuffer> upload(XlaStorage& storage);
  void begin_trace();
  /// The contents of a storage on the host, brought there if need be.
  std::span<const std::byte> host_copy(XlaStorage& storage);

  Mesh mesh_;
  int device_;
  std::shared_ptr<XlaBackend> backend_;
  std::shared_ptr<XlaLiveStorages> live_ = std::make_shared<XlaLiveStorages>();
  int loops_ = 0;
  std::unique_ptr<XlaTrace> trace_;
  std::vector<XlaCollective> collectives_;
  std::string last_program_;
  std::vector<XlaCollective> last_collectives_;
};

}  // namespace maxtext
