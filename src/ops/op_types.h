// What all ops share: the description of an output and the shape check.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace maxtext {

/// An output of an op. With `aliases_input` ≥ 0 it lies in that input's memory, from `first_element` on:
/// - donated (`view` false): the op writes there, the caller gives the input away and must not use it afterwards; an
///   engine that compiles programs treats it as a donated argument;
/// - a view: nothing is written or read, the input stays usable (and donating either of the two changes the other).
struct OutputSpec {
  TensorSpec spec;
  int aliases_input = -1;
  bool view = false;
  std::int64_t first_element = 0;
};

using InputSpecs = std::span<const TensorSpec>;

/// Throws Error "op(inputs…): message" naming the op and all input specs.
[[noreturn]] void fail_shape(std::string_view op, InputSpecs inputs, std::string_view message);

/// fail_shape unless `condition`.
void require_shape(bool condition, std::string_view op, InputSpecs inputs, std::string_view message);

/// fail_shape unless the number of inputs is one of `allowed`.
void require_arity(std::string_view op, InputSpecs inputs, std::initializer_list<std::size_t> allowed);

/// fail_shape unless the dtype is a floating-point one.
void require_floating(DType dtype, std::string_view op, InputSpecs inputs);

/// An output that is a view of input `input`.
OutputSpec view_of(int input, TensorSpec spec, std::int64_t first_element = 0);

/// One of `parts` equal parts of `spec` along its first dimension; throws Error where that does not divide.
TensorSpec shard_spec(const TensorSpec& spec, int parts);

/// The product of all dimensions but the last: the rows of a [..., N] tensor.
std::int64_t row_count(const Shape& shape);

/// Whether activations of one dtype are multiplied by parameters of another: they have one dtype, or float32 meets
/// parameters as they are stored, bfloat16 or float16, which are widened as they are read.
bool reads_stored(DType activation, DType parameter);

/// Gradients and reductions are fp32, except in fp64 programs (law 7).
DType accumulation_dtype(DType activation);

}  // namespace maxtext
