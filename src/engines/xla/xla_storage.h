// Memory of the xla engine. Between programs a storage lies on the host or on its device. While a program is traced it
// has, at every point, the SSA value that its memory would hold there: reading a view of it is a slice of that value,
// writing to a view replaces the value by an updated one. So "in place" means for a traced program what it means for an
// eager one, gradient buffers that are written piece by piece included, and the compiler turns the updates back into
// writes in place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engines/xla/pjrt_client.h"
#include "engines/xla/stablehlo_writer.h"
#include "tensor/tensor.h"

namespace maxtext {

class XlaStorage;

/// The storages of an engine that somebody still holds, in the order in which they were made: what a program leaves in
/// them are its results.
struct XlaLiveStorages {
  std::map<std::int64_t, XlaStorage*> by_number;
  std::int64_t next = 0;
};

class XlaStorage final : public Storage, public std::enable_shared_from_this<XlaStorage> {
 public:
  XlaStorage(TensorSpec spec, std::shared_ptr<void> token, std::shared_ptr<XlaLiveStorages> live)
      : Storage(spec.bytes()), spec_(spec), token_(std::move(token)), live_(std::move(live)), number_(live_->next++) {
    live_->by_number.emplace(number_, this);
  }
  ~XlaStorage() override { live_->by_number.erase(number_); }
  XlaStorage(const XlaStorage&) = delete;
  XlaStorage& operator=(const XlaStorage&) = delete;

  const TensorSpec& spec() const { return spec_; }
  std::int64_t number() const { return number_; }

  // ---- between programs ----

  /// Contents on the host: alone, or a copy of what `buffer` holds. Empty when there is none.
  std::vector<std::byte> host;
  /// Contents on the device. With neither, the memory was never written, and reads as zeros.
  std::shared_ptr<const PjrtBuffer> buffer;

  // ---- in the program under way ----

  /// What it holds now, in the shape of spec(); undefined before the program's first use of it.
  XlaValue value;
  /// In place of `value`, where memory that nothing was known of was written to part by part: the parts, by their first
  /// element, in the shapes in which they were written. A gradient that is written and read as the matrix that it is
  /// never has to be cut out of a flat buffer, which accelerators store in another layout.
  std::map<std::int64_t, XlaValue> parts;
  /// The program has written to it.
  bool changed = false;
  /// The loop inside whose body it was made; 0 outside of loops.
  int made_in_loop = 0;

  /// Of a stack, the first dimension of spec(): inside a loop its row r stands for row i + r − representative.
  bool is_stack = false;
  /// Lives from program to program: an argument even before anything was written to it, so that the first program is
  /// the same as the later ones.
  bool is_state = false;

 private:
  TensorSpec spec_;
  std::shared_ptr<void> token_;
  std::shared_ptr<XlaLiveStorages> live_;
  std::int64_t number_;
};

inline XlaStorage& xla_storage(const Tensor& tensor) { return static_cast<XlaStorage&>(*tensor.storage()); }

}  // namespace maxtext
