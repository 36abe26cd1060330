// Ops that move data without arithmetic.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (x) -> the same elements in another shape: a view, no copy.
struct Reshape {
  static constexpr std::string_view name = "reshape";
  Shape shape;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x) -> the elements [first_element, first_element + elements of shape) of x in row-major order, as `shape`: a view,
/// no copy. Parameters are views of their group's flat buffer.
struct View {
  static constexpr std::string_view name = "view";
  std::int64_t first_element = 0;
  Shape shape;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x) -> x[..., start : start+length, ...] along `axis`. Where all dimensions before `axis` are 1 the result is a
/// view, so that a padded parameter costs no copy.
struct Slice {
  static constexpr std::string_view name = "slice";
  int axis = 0;
  std::int64_t start = 0;
  std::int64_t length = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x0, x1, …) -> joined along `axis`.
struct Concat {
  static constexpr std::string_view name = "concat";
  int axis = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x) -> dimensions reordered: output dimension i is input dimension permutation[i].
struct Transpose {
  static constexpr std::string_view name = "transpose";
  std::vector<int> permutation;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x [N, ...], index int32 [M]) -> [M, ...], rows x[index[i]].
struct Take {
  static constexpr std::string_view name = "take";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
