// The program of one device runs on an engine. `apply` is the same for all: shape rule, allocation of outputs, then
// the engine's own `execute`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mesh/communicator.h"
#include "ops/memory_meter.h"
#include "ops/op.h"
#include "tensor/tensor.h"

namespace maxtext {

/// begin, begin + step, … below end; with `reverse` in descending order.
struct LoopRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
  bool reverse = false;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Runs one op. Throws Error naming the op where shapes do not fit or an input is undefined.
  std::vector<Tensor> apply(const Op& op, std::span<const Tensor> inputs);
  std::vector<Tensor> apply(const Op& op, std::initializer_list<Tensor> inputs) {
    return apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()));
  }
  /// `apply` of an op with one output.
  Tensor apply_one(const Op& op, std::initializer_list<Tensor> inputs);

  /// Uninitialised memory.
  virtual Tensor allocate(const TensorSpec& spec) = 0;
  /// Uninitialised memory of which every member of the group over `axes` gets one equal part of `spec`, in group-rank
  /// order along its first dimension, which the group size must divide: [N, ...] -> [N/P, ...]. Where devices share
  /// memory the parts are adjacent, so that an all_gather of them needs no copy. Collective.
  virtual Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) = 0;
  /// Uninitialised memory that lives from step to step, such as a KV cache's. An engine that traces programs hands it
  /// to them from the first one on, so that the first is the same as the later ones.
  virtual Tensor allocate_state(const TensorSpec& spec) { return allocate(spec); }

  /// Calls body(i) for every i of `range`. An engine that traces programs calls it for `begin` only, as the body of a
  /// loop: there, rows of stacks (below) move along with the iteration, every other tensor made outside that the body
  /// writes to (Assign, ops in place) is carried from iteration to iteration, and tensors made inside are gone after
  /// it. So a body must do for each i the same with row i + k of stacks as for `begin` with row begin + k.
  virtual void loop(const LoopRange& range, const std::function<void(std::int64_t i)>& body);
  /// Whether `loop` stands for all iterations by one.
  virtual bool traces_loops() const { return false; }
  /// `rows` tensors of `spec`, uninitialised: a stack, of which a loop's iteration i reads and writes row i. One that a
  /// body allocates outlives it.
  virtual std::vector<Tensor> allocate_stack(std::int64_t rows, const TensorSpec& spec);
  /// The same of shards (`allocate_shard`). Collective.
  virtual std::vector<Tensor> allocate_shard_stack(std::int64_t rows, const TensorSpec& spec, AxisSet axes);
  /// A stack of zeros that lives from step to step.
  virtual std::vector<Tensor> zeros_stack(std::int64_t rows, const TensorSpec& spec);

  /// Whether everything that is computed in new shapes is compiled first, which takes seconds: then it pays to compute
  /// in vain what brings different work to the same shapes (padding, unused capacity).
  virtual bool compiles_shapes() const { return false; }
  /// Runs what was traced so far as a program of its own, where an engine traces programs; others have nothing to do.
  /// To be called between parts of which there may be any number, lest every number be another program.
  virtual void run_pending() {}

  /// An input of the program: `bytes` row-major elements of `spec` (ignored by engines without data; may be empty
  /// there).
  virtual Tensor input(const TensorSpec& spec, std::span<const std::byte> bytes) = 0;
  /// A tensor over `bytes`, row-major elements of `spec` in memory that somebody else owns and nobody changes, such as
  /// a mapped file; `owner` is kept until the last tensor of it is gone. It may only be read: `write` and ops that work
  /// in place throw Error. The memory meter counts it as borrowed, not as allocated. Engines that cannot compute where
  /// the bytes lie (memory of their own, or the address is no multiple of the element's size) copy them, as `input`
  /// does; engines without data ignore them, and they may be empty there.
  virtual Tensor borrow(const TensorSpec& spec, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// Copies a tensor's contents out. Between steps only: no decision inside a step may depend on it.
  virtual void read(const Tensor& tensor, std::span<std::byte> destination) = 0;
  /// Overwrites a tensor's contents, between steps only (loading a checkpoint, initial weights). Throws Error for
  /// borrowed memory.
  virtual void write(const Tensor& tensor, std::span<const std::byte> source) = 0;
  /// The tensor's own memory where the host can read it in place (a checkpoint writes it from there); empty for engines
  /// without data or with memory of their own. Valid while the tensor's storage lives.
  virtual std::span<const std::byte> host_bytes(const Tensor& /*tensor*/) { return {}; }
  /// False for engines without data, whose `read` leaves the destination as it is.
  virtual bool has_data() const = 0;

  virtual const Mesh& mesh() const = 0;
  virtual int device() const = 0;

  MemoryMeter& memory() { return memory_; }
  const MemoryMeter& memory() const { return memory_; }
  /// FLOPs of all ops so far, by the ops' own count.
  double flops() const { return flops_; }

 protected:
  /// Computes `outputs`, which are allocated or alias inputs as `infer` said. Not called when all of them are views.
  virtual void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;

  /// The results of an all_gather (of a group larger than one) without memory of their own, where all inputs are parts
  /// of adjacent shards; empty where they must be allocated and copied.
  virtual std::vector<Tensor> gather_views(const AllGather& /*gather*/, std::span<const Tensor> /*inputs*/) {
    return {};
  }

 private:
  MemoryMeter memory_;
  double flops_ = 0;
};

}  // namespace maxtext
