// The eager engine: an op runs when it is called, on the OpenMP team of the calling thread, on oneDNN for matrix
// products.
#pragma once

#include "engines/cpu/cpu_context.h"
#include "ops/engine.h"

namespace maxtext {

struct CpuEngineOptions {
  /// OpenMP threads of this device.
  int threads = 1;
  /// Products of 1 to 16 rows with a weight read it once, at the speed of memory (few_rows.h), in place of a product of
  /// 48 padded rows: for decoding. Their rounding differs from that of more rows (ops/linear.h).
  bool fast_few_rows = false;
};

/// Not thread-safe: all calls come from the device's own thread. `communicator` must outlive the engine.
class CpuEngine final : public Engine {
 public:
  CpuEngine(CpuEngineOptions options, Communicator& communicator);

  Tensor allocate(const TensorSpec& spec) override;
  Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) override;
  Tensor input(const TensorSpec& spec, std::span<const std::byte> bytes) override;
  Tensor borrow(const TensorSpec& spec, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) override;
  void read(const Tensor& tensor, std::span<std::byte> destination) override;
  void write(const Tensor& tensor, std::span<const std::byte> source) override;
  std::span<const std::byte> host_bytes(const Tensor& tensor) override;
  bool has_data() const override { return true; }
  const Mesh& mesh() const override { return context_.communicator.mesh(); }
  int device() const override { return context_.communicator.device(); }

  /// Physical memory behind tensors and scratch, including what is free for reuse.
  std::int64_t pooled_bytes() const { return pool_.touched_bytes() + workspace_.bytes(); }

 protected:
  void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) override;
  std::vector<Tensor> gather_views(const AllGather& gather, std::span<const Tensor> inputs) override;

 private:
  CpuEngineOptions options_;
  MemoryPool pool_;
  Workspace workspace_;
  CpuContext context_;
};

}  // namespace maxtext
