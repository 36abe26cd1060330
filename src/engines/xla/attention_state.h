// States of attention (ops/merge_states.h) inside a traced program: what decode attention and the merge end with.
#pragma once

#include <optional>

#include "engines/xla/trace.h"

namespace maxtext {

struct XlaAttentionState {
  XlaValue o;  ///< float32 [B, T, query_heads, D], unnormalised
  XlaValue l;  ///< float32 [B, query_heads, T]
  XlaValue m;  ///< likewise
};

/// A maximum of scores as something to subtract: 0 where it is −∞, so that −∞ − (−∞) cannot occur.
XlaValue subtrahend(StableHloWriter& writer, const XlaValue& maximum);

/// exp(x − subtrahend(maximum)), where x has the shape of `maximum`: 0 where x is −∞.
XlaValue weight_of(StableHloWriter& writer, const XlaValue& x, const XlaValue& maximum);

/// `per_row` [B, query_heads, T] for every element of o [B, T, query_heads, D].
XlaValue along_head_dim(StableHloWriter& writer, const XlaValue& per_row, const Shape& o);

/// Stores o, l and m, after `sinks` [query_heads], where there are any, have joined, and with `normalize` o has been
/// divided by l unless that is 0.
void store_state(XlaContext& context, XlaAttentionState state, const std::optional<Tensor>& sinks, bool normalize,
                 XlaOutputs outputs);

}  // namespace maxtext
