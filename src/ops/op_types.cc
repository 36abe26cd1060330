#include "ops/op_types.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace maxtext {

void fail_shape(std::string_view op, InputSpecs inputs, std::string_view message) {
  std::string list;
  for (const TensorSpec& spec : inputs) list += (list.empty() ? "" : ", ") + to_string(spec);
  fail("{}({}): {}", op, list, message);
}

void require_shape(bool condition, std::string_view op, InputSpecs inputs, std::string_view message) {
  if (!condition) fail_shape(op, inputs, message);
}

void require_arity(std::string_view op, InputSpecs inputs, std::initializer_list<std::size_t> allowed) {
  require_shape(std::find(allowed.begin(), allowed.end(), inputs.size()) != allowed.end(), op, inputs,
                "wrong number of inputs");
}

void require_floating(DType dtype, std::string_view op, InputSpecs inputs) {
  const bool floating =
      dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
  require_shape(floating, op, inputs, "expected a floating-point dtype");
}

OutputSpec view_of(int input, TensorSpec spec, std::int64_t first_element) {
  return {.spec = spec, .aliases_input = input, .view = true, .first_element = first_element};
}

TensorSpec shard_spec(const TensorSpec& spec, int parts) {
  if (spec.shape.empty() || spec.shape[0] % parts != 0) {
    fail("shard: the first dimension of {} does not divide into {} equal parts", to_string(spec), parts);
  }
  TensorSpec part = spec;
  part.shape[0] /= parts;
  return part;
}

std::int64_t row_count(const Shape& shape) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

bool reads_stored(DType activation, DType parameter) {
  const bool sixteen_bits = parameter == DType::bfloat16 || parameter == DType::float16;
  return activation == parameter || (activation == DType::float32 && sixteen_bits);
}

DType accumulation_dtype(DType activation) { return activation == DType::float64 ? DType::float64 : DType::float32; }

}  // namespace maxtext
