#include "engines/xla/rounding.h"

#include "ops/op_types.h"

namespace maxtext {

XlaValue load_wide(const XlaContext& context, const Tensor& tensor) {
  return context.writer.convert(context.load(tensor), accumulation_dtype(tensor.dtype()));
}

void store_rounded(const XlaContext& context, const Tensor& tensor, const XlaValue& value) {
  context.store(tensor, context.writer.convert(value, tensor.dtype()));
}

}  // namespace maxtext
