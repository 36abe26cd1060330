// Runs the program of one device on shapes only: no data, no arithmetic. It takes the same memory in the same order as
// the cpu engine and notes what the program would send and compute.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/communicator.h"
#include "ops/engine.h"

namespace maxtext {

/// One collective that the program started.
struct RecordedCollective {
  CollectiveKind kind = CollectiveKind::barrier;
  AxisSet axes;
  /// What one device puts on the wire (logical_bytes).
  std::int64_t bytes = 0;
  bool operator==(const RecordedCollective&) const = default;
};

struct DryEngineOptions {
  /// Predict an engine whose transport shares memory between devices (Communicator::shares_memory): gathering whole
  /// shards of `allocate_shard` takes no memory there.
  bool shares_memory = false;
  /// Predict an engine that traces loops: the program takes the same form, and each iteration of a loop is run.
  bool traces_loops = false;
  /// Called for every tensor that takes memory of its own (parts of shared memory do not); what it returns is kept as
  /// long as that memory, and collectives under way keep the memory of their tensors.
  std::function<std::shared_ptr<void>(std::int64_t bytes)> on_allocate = {};
  /// Called for every op that computes, with its outputs allocated.
  std::function<void(const Op& op, InputSpecs inputs)> on_execute = {};
};

class DryEngine final : public Engine {
 public:
  DryEngine(Mesh mesh, int device, DryEngineOptions options = {});

  Tensor allocate(const TensorSpec& spec) override;
  Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) override;
  Tensor input(const TensorSpec& spec, std::span<const std::byte> bytes) override;
  Tensor borrow(const TensorSpec& spec, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) override;
  void read(const Tensor& tensor, std::span<std::byte> destination) override;
  void write(const Tensor& tensor, std::span<const std::byte> source) override;
  bool has_data() const override { return false; }
  bool traces_loops() const override { return options_.traces_loops; }
  const Mesh& mesh() const override { return mesh_; }
  int device() const override { return device_; }

  /// In the order of the program.
  const std::vector<RecordedCollective>& collectives() const { return collectives_; }
  /// Calls and bytes per kind, as a communicator counts them.
  const CollectiveCounters& counters() const { return counters_; }
  /// FLOPs per op name, of ops that count any.
  const std::map<std::string, double, std::less<>>& flops_by_op() const { return flops_by_op_; }
  /// Bytes of parts of shared memory that were ever allocated: they are in `memory()`, but not told to `on_allocate`.
  std::int64_t shared_bytes() const { return shared_bytes_; }
  /// Forgets collectives and FLOPs per op so far (Engine::flops goes on).
  void reset_records();

 protected:
  void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) override;
  std::vector<Tensor> gather_views(const AllGather& gather, std::span<const Tensor> inputs) override;

 private:
  void record(CollectiveRequest request, std::span<const Tensor> per_member);

  Mesh mesh_;
  int device_;
  DryEngineOptions options_;
  std::int64_t shared_bytes_ = 0;
  std::vector<RecordedCollective> collectives_;
  CollectiveCounters counters_;
  std::map<std::string, double, std::less<>> flops_by_op_;
};

}  // namespace maxtext
