// Arithmetic of programs with 16-bit activations: ops compute in the accumulation dtype (float32; float64 in fp64
// programs) and round once, when they store. In float32 and float64 programs nothing is converted.
#pragma once

#include "engines/xla/xla_context.h"

namespace maxtext {

/// `context.load` in the accumulation dtype of the tensor's dtype.
XlaValue load_wide(const XlaContext& context, const Tensor& tensor);

/// `context.store` of `value` rounded to the tensor's dtype.
void store_rounded(const XlaContext& context, const Tensor& tensor, const XlaValue& value);

}  // namespace maxtext
