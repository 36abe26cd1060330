// A small training state whose every element depends on the step, split over any number of owners.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/reader.h"

namespace maxtext::testing {

class ExampleState {
 public:
  struct Value {
    TensorSpec spec;
    std::vector<float> data;
  };
  using Key = std::pair<std::string, std::string>;  // kind, name

  explicit ExampleState(std::int64_t step);

  /// Tensors cut into `owners` ranges (of unequal lengths, some empty); the norms belong whole to one owner each.
  std::vector<DeviceState> owned_by(int owners) const;

  CheckpointInfo info() const;

  /// Fails the test unless the checkpoint is this state, bit for bit, read in `parts` ranges per tensor.
  void expect_equal(const CheckpointReader& reader, int parts) const;

  /// Changes every element in place, as an optimizer update does.
  void update();

  std::map<Key, Value>& values() { return values_; }

 private:
  std::int64_t step_;
  std::map<Key, Value> values_;
};

}  // namespace maxtext::testing
