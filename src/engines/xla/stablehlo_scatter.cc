// Writes at places that the program computes, in StableHLO text.
#include <algorithm>

#include "base/error.h"
#include "engines/xla/stablehlo_writer.h"

namespace maxtext {

XlaValue StableHloWriter::scatter_replace(const XlaValue& base, const XlaValue& places,
                                          const std::vector<std::int64_t>& dimensions, const XlaValue& updates) {
  const auto fail_operands = [&](std::string_view expected) {
    fail("StableHLO scatter({}, {}, {}): {}", to_string(base.spec), to_string(places.spec), to_string(updates.spec),
         expected);
  };
  if (places.spec.shape.empty() || is_floating(places.spec.dtype) ||
      places.spec.shape.back() != std::ssize(dimensions)) {
    fail_operands("expected one integer per dimension " + list_text(dimensions));
  }
  TensorSpec expected{Shape(places.spec.shape.begin(), places.spec.shape.end() - 1), base.spec.dtype};
  const std::int64_t leading = std::ssize(expected.shape);
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < std::ssize(base.spec.shape); ++i) {
    if (std::count(dimensions.begin(), dimensions.end(), i) > 0) continue;
    windows.push_back(std::ssize(expected.shape));
    expected.shape.push_back(base.spec.shape[static_cast<std::size_t>(i)]);
  }
  if (updates.spec != expected) fail_operands("the updates should be " + to_string(expected));
  const std::string element = type_text({{}, base.spec.dtype});
  return emit(base.spec,
              fmt::format("\"stablehlo.scatter\"({0}, {1}, {2}) ({{\n    ^bb0(%old: {3}, %new: {3}):\n"
                          "      stablehlo.return %new : {3}\n  }}) {{scatter_dimension_numbers = "
                          "#stablehlo.scatter<update_window_dims = {4}, inserted_window_dims = {5}, "
                          "scatter_dims_to_operand_dims = {5}, index_vector_dim = {6}>, indices_are_sorted = false, "
                          "unique_indices = true}} : ({7}, {8}, {9}) -> {7}",
                          base.name, places.name, updates.name, element, list_text(windows), list_text(dimensions),
                          leading, type_text(base.spec), type_text(places.spec), type_text(updates.spec)));
}

}  // namespace maxtext
