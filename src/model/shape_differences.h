// In what two descriptions of a model differ: that of a config.json, and that of the configuration's keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/model_shape.h"

namespace maxtext {

struct ShapeDifference {
  std::string name;  ///< as config.json calls it
  std::string found;
  std::string wanted;
  /// The keys that `wanted` follows from, the most telling first.
  std::vector<std::string_view> keys;
  /// Names or shapes of tensors tell it. Nobody would notice the others, which may be meant (longer context), or not.
  bool in_tensors = false;
};

/// Those that change results, first those that are in tensors; none where both are the same model.
std::vector<ShapeDifference> shape_differences(const ModelShape& found, const ModelShape& wanted);

}  // namespace maxtext
