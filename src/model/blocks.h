// The blocks that decoder families are put together from.
#pragma once

#include "model/family.h"

namespace maxtext {

/// Parameters of one attention block; biases and norms are undefined where a family has none.
struct AttentionWeights {
  Variable q_proj, k_proj, v_proj, o_proj;
  Variable q_bias, k_bias, v_bias;
  Variable q_norm, k_norm;
};

/// Grouped-query self-attention with rotary embedding: x [B, T, E] -> [B, T, E].
///   q, k, v = projections of x (+ bias), per head; q, k normalised over head_dim where norms are given; then RoPE;
///   o = attention(q, k, v) by the context strategy, scores scaled and soft-capped as the shape says;
///   result = o · o_projᵀ.
/// `shape` has this device's heads (tensor_part); the result is summed over kTensorAxes.
Variable attention_block(const ModelShape& shape, Variable x, const AttentionWeights& weights,
                         const LayerConstants& constants);

/// (act(x · gateᵀ) ∘ (x · upᵀ)) · downᵀ, summed over kTensorAxes, of which each device has a part of the width.
Variable gated_mlp(Variable x, Variable gate_proj, Variable up_proj, Variable down_proj, Activation activation);

// How weights are cut over tensor parallelism. The first of a block by rows, its biases too; those of keys and values
// by KV heads, of which there may be fewer than devices; the last of a block by columns. What is cut otherwise, or not
// at all, is read through the functions of tensor_parallel.h.
inline constexpr TensorSplit kRows{kTensorAxes, 0};
inline constexpr TensorSplit kKeyValueRows{Axis::tensor, 0};
inline constexpr TensorSplit kColumns{kTensorAxes, 1};

/// A projection's parameter, [out, in], with deviation 1/sqrt(in) (MaxText's fan-in initialisation).
ParameterInfo projection(std::string name, std::int64_t out, std::int64_t in, TensorSplit split = {});
/// The weight of an RMSNorm; it starts so that the norm multiplies by 1 (0 for Gemma's 1 + w).
ParameterInfo norm_scale(std::string name, std::int64_t size, const ModelShape& shape);
ParameterInfo bias(std::string name, std::int64_t size, TensorSplit split = {});

/// RMSNorm with the shape's epsilon and weight offset.
Variable model_norm(const ModelShape& shape, Variable x, Variable weight);

/// The parameters common to Llama-like layers, in the order that `llama_like_layer` expects: input norm, q, k, v
/// (with biases where the shape has them), q and k norms where it has them, o, post-attention norm, gate, up, down.
std::vector<ParameterInfo> llama_like_parameters(const ModelShape& shape);
/// Pre-norm residual layer: x + attention(norm(x)), then x + mlp(norm(x)), SwiGLU.
Variable llama_like_layer(const ModelShape& shape, Variable x, std::span<const Variable> parameters,
                          const LayerConstants& constants);

/// The parameters of layers with norms on both sides of attention and MLP, in the order that `sandwich_layer` expects:
/// input norm, q, k, v, q and k norms where the shape has them, o, post-attention norm, pre- and post-feedforward norm,
/// gate, up, down.
std::vector<ParameterInfo> sandwich_parameters(const ModelShape& shape);
/// x + norm(attention(norm(x))), then x + norm(mlp(norm(x))), with the shape's gate.
Variable sandwich_layer(const ModelShape& shape, Variable x, std::span<const Variable> parameters,
                        const LayerConstants& constants);

}  // namespace maxtext
