// Whether given weights are those of a model.
#pragma once

#include "checkpoint/weight_source.h"
#include "config/model_shape.h"

namespace maxtext {

/// Throws ConfigError naming the tensor when one of the model's is missing, has another shape (expected, found) or a
/// type other than float32, bfloat16 and float16, and for one that is not the model's: passed over, it would make the
/// results those of another model. A head beside a tied embedding and RoPE's frequencies may be there, unread.
void check_weights(const WeightSource& weights, const ModelShape& shape);

}  // namespace maxtext
