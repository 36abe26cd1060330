// Short names for specs, and what a shape rule answers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/op.h"

namespace maxtext {

inline TensorSpec f32(Shape shape) { return {std::move(shape), DType::float32}; }
inline TensorSpec f64(Shape shape) { return {std::move(shape), DType::float64}; }
inline TensorSpec i32(Shape shape) { return {std::move(shape), DType::int32}; }
inline TensorSpec i8(Shape shape) { return {std::move(shape), DType::int8}; }
inline TensorSpec bf16(Shape shape) { return {std::move(shape), DType::bfloat16}; }
inline TensorSpec f16(Shape shape) { return {std::move(shape), DType::float16}; }

/// The rule's error, or "accepted".
inline std::string refusal(const Op& op, const std::vector<TensorSpec>& inputs) {
  try {
    infer(op, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

inline std::vector<TensorSpec> specs(const Op& op, const std::vector<TensorSpec>& inputs) {
  std::vector<TensorSpec> result;
  for (const OutputSpec& output : infer(op, inputs)) result.push_back(output.spec);
  return result;
}

}  // namespace maxtext
