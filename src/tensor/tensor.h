// A tensor is a value: a spec and a share in a storage that belongs to an engine. The model's code copies, names and
// passes tensors, and never sees their contents (law 1 of the design).
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/shape.h"

namespace maxtext {

/// Memory (or, for an engine without data, the accounting of it) behind one or more tensors. Engines derive from it.
class Storage {
 public:
  explicit Storage(std::int64_t bytes) : bytes_(bytes) {}
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::int64_t bytes() const { return bytes_; }

  /// Whether the memory is somebody else's, to be read only (Engine::borrow).
  bool read_only() const { return read_only_; }
  void set_read_only() { read_only_ = true; }

  /// Returns once the contents are there. A collective's result is returned before it is complete, and the engine
  /// calls this at its first use.
  virtual void wait() {}

 private:
  std::int64_t bytes_;
  bool read_only_ = false;
};

/// Dense, row-major and contiguous. Several tensors may view one storage (`view`).
class Tensor {
 public:
  Tensor() = default;
  Tensor(TensorSpec spec, std::shared_ptr<Storage> storage, std::int64_t byte_offset = 0)
      : spec_(spec), storage_(std::move(storage)), byte_offset_(byte_offset) {}

  bool defined() const { return storage_ != nullptr; }
  const TensorSpec& spec() const { return spec_; }
  const Shape& shape() const { return spec_.shape; }
  std::int64_t dim(int axis) const { return spec_.shape.at(static_cast<std::size_t>(axis)); }
  DType dtype() const { return spec_.dtype; }
  std::int64_t elements() const { return spec_.elements(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t byte_offset() const { return byte_offset_; }

  /// The elements [first_element, first_element + element_count(shape)) of this tensor's memory as a tensor of its
  /// own that shares the storage. Throws Error when they do not lie within this tensor.
  Tensor view(std::int64_t first_element, Shape shape) const;

 private:
  TensorSpec spec_;
  std::shared_ptr<Storage> storage_;
  std::int64_t byte_offset_ = 0;
};

}  // namespace maxtext
