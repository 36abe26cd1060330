// The storage behind tensors of the cpu engine, and access to it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "mesh/communicator.h"
#include "tensor/tensor.h"

namespace maxtext {

/// Memory of a whole group, of which a storage is one member's part.
struct SharedGroup {
  AxisSet axes;
  std::shared_ptr<std::byte> base;
};

/// A block of memory, with the meter's token where it counts as allocated.
class CpuStorage final : public Storage {
 public:
  CpuStorage(std::shared_ptr<std::byte> block, std::int64_t bytes, std::shared_ptr<void> token)
      : Storage(bytes), token_(std::move(token)), block_(std::move(block)) {}

  std::byte* data() const { return block_.get(); }
  const std::shared_ptr<std::byte>& block() const { return block_; }

  /// Where the block is a part of memory that the group shares; without base for ordinary memory.
  const SharedGroup& shared_group() const { return shared_group_; }
  void set_shared_group(SharedGroup group) { shared_group_ = std::move(group); }

  /// The contents arrive with this collective.
  void set_pending(std::shared_ptr<PendingCollective> pending) { pending_ = std::move(pending); }

  void wait() override {
    if (pending_ == nullptr) return;
    pending_->wait();
    pending_.reset();
  }

 private:
  std::shared_ptr<void> token_;
  std::shared_ptr<std::byte> block_;
  SharedGroup shared_group_;
  std::shared_ptr<PendingCollective> pending_;
};

inline CpuStorage& storage_of(const Tensor& tensor) { return static_cast<CpuStorage&>(*tensor.storage()); }

/// The elements of a tensor of this engine.
template <typename T>
T* data(const Tensor& tensor) {
  return reinterpret_cast<T*>(storage_of(tensor).data() + tensor.byte_offset());
}

}  // namespace maxtext
