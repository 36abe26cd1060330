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
Variable attention_block(const ModelShape& shape, Variable x, const AttentionWeights& weights,
                         const LayerConstants& constants);

/// (act(x · gateᵀ) ∘ (x · upᵀ)) · downᵀ.
Variable gated_mlp(Variable x, Variable gate_proj, Variable up_proj, Variable down_proj, Activation activation);

/// A projection's parameter, [out, in], with deviation 1/sqrt(in) (MaxText's fan-in initialisation).
ParameterInfo projection(std::string name, std::int64_t out, std::int64_t in);
/// The weight of an RMSNorm; it starts so that the norm multiplies by 1 (0 for Gemma's 1 + w).
ParameterInfo norm_scale(std::string name, std::int64_t size, const ModelShape& shape);
ParameterInfo bias(std::string name, std::int64_t size);

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
