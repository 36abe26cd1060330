// Memory in a program whose values never change. A storage is a buffer that holds, at every point of the trace, the SSA
// value that its memory would have there: reading a view of it is a slice of that value, writing to a view of it
// replaces the value by an updated one. So "in place" means for a traced program what it means for an eager one,
// gradient buffers that are written piece by piece included, and the compiler turns the updates back into writes in
// place.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engines/xla/stablehlo_writer.h"
#include "tensor/tensor.h"

namespace maxtext {

class XlaStorage final : public Storage {
 public:
  XlaStorage(TensorSpec spec, std::shared_ptr<void> token)
      : Storage(spec.bytes()), spec_(spec), token_(std::move(token)) {}

  const TensorSpec& spec() const { return spec_; }

  /// What the buffer holds now; undefined before the first write. Has the buffer's elements in whichever shape was
  /// written last.
  const XlaValue& value() const { return value_; }
  void set_value(XlaValue value) { value_ = std::move(value); }

  /// The number of the program's argument that fills the buffer at its start; −1 for a buffer inside the program.
  int argument() const { return argument_; }
  void set_argument(int argument) { argument_ = argument; }

  /// The number of the program's result that the buffer's last value is; −1 when nobody asked for it.
  int result() const { return result_; }
  void set_result(int result) { result_ = result; }

 private:
  TensorSpec spec_;
  std::shared_ptr<void> token_;
  XlaValue value_;
  int argument_ = -1;
  int result_ = -1;
};

inline XlaStorage& xla_storage(const Tensor& tensor) { return static_cast<XlaStorage&>(*tensor.storage()); }

}  // namespace maxtext
