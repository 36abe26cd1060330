#include "model/blocks.h"

#include <cmath>

#include "autodiff/functions.h"
#include "model/tensor_parallel.h"

namespace maxtext {
namespace {

Variable project(Variable x, Variable weight, Variable bias, const char* name) {
  return bias.defined() ? linear(x, weight, bias, name) : linear(x, weight, name);
}

Variable split_heads(Variable x, std::int64_t heads, std::int64_t head_dim) {
  return reshape(x, {x.shape()[0], x.shape()[1], heads, head_dim});
}

/// By the columns of a weight that belong to this device's part of x: the sum over devices is the product. It is the
/// sum that a policy keeps by `name`, not what is summed.
Variable project_and_leave(Variable x, Variable weight, const char* name) {
  const bool cut = x.graph().engine().mesh().size(kTensorAxes) > 1;
  return cut ? leave_tensor(linear(x, weight), name) : linear(x, weight, name);
}

/// Hands out parameters in the order in which they were declared.
class Reader {
 public:
  explicit Reader(std::span<const Variable> parameters) : parameters_(parameters) {}
  Variable next() { return parameters_[index_++]; }
  Variable next_if(bool present) { return present ? next() : Variable(); }

 private:
  std::span<const Variable> parameters_;
  std::size_t index_ = 0;
};

}  // namespace

Variable attention_block(const ModelShape& shape, Variable x, const AttentionWeights& weights,
                         const LayerConstants& constants) {
  // Replicas of KV heads compute the same keys and values; what their query heads find of dk and dv is summed, and
  // then they have one dx among them.
  const bool replicated = x.graph().engine().mesh().size(Axis::kv_replica) > 1;
  const Variable x_kv = enter_tensor(x, Axis::tensor);
  const Variable x_q = replicated ? enter_tensor(x, kTensorAxes) : x_kv;
  // Keys and values first: they travel while the queries are projected.
  Variable k = split_heads(project(x_kv, weights.k_proj, weights.k_bias, "key_proj"), shape.kv_heads, shape.head_dim);
  if (weights.k_norm.defined()) k = model_norm(shape, k, shared_parameter(weights.k_norm, Axis::tensor));
  k = enter_tensor(rope(k, constants.rope_cos, constants.rope_sin), Axis::kv_replica);
  const Variable v = enter_tensor(
      split_heads(project(x_kv, weights.v_proj, weights.v_bias, "value_proj"), shape.kv_heads, shape.head_dim),
      Axis::kv_replica);
  constants.attention.begin(k, v);
  Variable q =
      split_heads(project(x_q, weights.q_proj, weights.q_bias, "query_proj"), shape.query_heads, shape.head_dim);
  if (weights.q_norm.defined()) q = model_norm(shape, q, shared_parameter(weights.q_norm, kTensorAxes));
  q = rope(q, constants.rope_cos, constants.rope_sin);
  const Variable o = constants.attention.attend(q, {.scale = shape.query_scale, .softcap = shape.attention_softcap});
  return project_and_leave(reshape(o, {x.shape()[0], x.shape()[1], shape.query_heads * shape.head_dim}), weights.o_proj,
                           "out_proj");
}

Variable gated_mlp(Variable x, Variable gate_proj, Variable up_proj, Variable down_proj, Activation activation) {
  x = enter_tensor(x, kTensorAxes);
  const Variable gate = linear(x, gate_proj, "mlpwi_0");
  const Variable up = linear(x, up_proj, "mlpwi_1");
  return project_and_leave(gated_activation(gate, up, activation), down_proj, "mlpwo");
}

ParameterInfo projection(std::string name, std::int64_t out, std::int64_t in, TensorSplit split) {
  return {
      std::move(name), {out, in}, {Initializer::Kind::truncated_normal, 1 / std::sqrt(static_cast<double>(in))}, split};
}

ParameterInfo norm_scale(std::string name, std::int64_t size, const ModelShape& shape) {
  const bool from_one = shape.norm_weight_offset == 1;
  return {std::move(name), {size}, {from_one ? Initializer::Kind::zeros : Initializer::Kind::ones, 0}, {}};
}

ParameterInfo bias(std::string name, std::int64_t size, TensorSplit split) {
  return {std::move(name), {size}, {Initializer::Kind::zeros, 0}, split};
}

Variable model_norm(const ModelShape& shape, Variable x, Variable weight) {
  return rms_norm(x, weight, shape.rms_norm_eps, shape.norm_weight_offset);
}

namespace {

/// Of the attention block, in the order of `read_attention`.
void add_attention_parameters(const ModelShape& shape, std::vector<ParameterInfo>& list) {
  const std::int64_t query_size = shape.query_heads * shape.head_dim;
  const std::int64_t kv_size = shape.kv_heads * shape.head_dim;
  list.push_back(projection("self_attn.q_proj.weight", query_size, shape.hidden_size, kRows));
  list.push_back(projection("self_attn.k_proj.weight", kv_size, shape.hidden_size, kKeyValueRows));
  list.push_back(projection("self_attn.v_proj.weight", kv_size, shape.hidden_size, kKeyValueRows));
  if (shape.attention_bias) {
    list.push_back(bias("self_attn.q_proj.bias", query_size, kRows));
    list.push_back(bias("self_attn.k_proj.bias", kv_size, kKeyValueRows));
    list.push_back(bias("self_attn.v_proj.bias", kv_size, kKeyValueRows));
  }
  if (shape.qk_norm) {
    list.push_back(norm_scale("self_attn.q_norm.weight", shape.head_dim, shape));
    list.push_back(norm_scale("self_attn.k_norm.weight", shape.head_dim, shape));
  }
  list.push_back(projection("self_attn.o_proj.weight", shape.hidden_size, query_size, kColumns));
}

AttentionWeights read_attention(const ModelShape& shape, Reader& weights) {
  AttentionWeights attention;
  attention.q_proj = weights.next();
  attention.k_proj = weights.next();
  attention.v_proj = weights.next();
  attention.q_bias = weights.next_if(shape.attention_bias);
  attention.k_bias = weights.next_if(shape.attention_bias);
  attention.v_bias = weights.next_if(shape.attention_bias);
  attention.q_norm = weights.next_if(shape.qk_norm);
  attention.k_norm = weights.next_if(shape.qk_norm);
  attention.o_proj = weights.next();
  return attention;
}

void add_mlp_parameters(const ModelShape& shape, std::vector<ParameterInfo>& list) {
  list.push_back(projection("mlp.gate_proj.weight", shape.intermediate_size, shape.hidden_size, kRows));
  list.push_back(projection("mlp.up_proj.weight", shape.intermediate_size, shape.hidden_size, kRows));
  list.push_back(projection("mlp.down_proj.weight", shape.hidden_size, shape.intermediate_size, kColumns));
}

/// x + mlp(norm(x)), reading the three projections; with `output_norm` x + norm(mlp(norm(x))).
Variable add_mlp(const ModelShape& shape, Variable x, Variable input_norm, Variable output_norm, Reader& weights) {
  const Variable gate = weights.next();
  const Variable up = weights.next();
  const Variable down = weights.next();
  const Activation activation = shape.activation == MlpActivation::gelu_tanh ? Activation::gelu_tanh : Activation::silu;
  const Variable y = gated_mlp(model_norm(shape, x, input_norm), gate, up, down, activation);
  return add(x, output_norm.defined() ? model_norm(shape, y, output_norm) : y);
}

}  // namespace

std::vector<ParameterInfo> llama_like_parameters(const ModelShape& shape) {
  std::vector<ParameterInfo> list;
  list.push_back(norm_scale("input_layernorm.weight", shape.hidden_size, shape));
  add_attention_parameters(shape, list);
  list.push_back(norm_scale("post_attention_layernorm.weight", shape.hidden_size, shape));
  add_mlp_parameters(shape, list);
  return list;
}

Variable llama_like_layer(const ModelShape& shape, Variable x, std::span<const Variable> parameters,
                          const LayerConstants& constants) {
  Reader weights(parameters);
  const Variable input_norm = weights.next();
  const AttentionWeights attention = read_attention(shape, weights);
  const Variable mlp_norm = weights.next();
  const Variable attended = attention_block(shape, model_norm(shape, x, input_norm), attention, constants);
  return add_mlp(shape, add(x, attended), mlp_norm, Variable(), weights);
}

std::vector<ParameterInfo> sandwich_parameters(const ModelShape& shape) {
  std::vector<ParameterInfo> list;
  list.push_back(norm_scale("input_layernorm.weight", shape.hidden_size, shape));
  add_attention_parameters(shape, list);
  list.push_back(norm_scale("post_attention_layernorm.weight", shape.hidden_size, shape));
  list.push_back(norm_scale("pre_feedforward_layernorm.weight", shape.hidden_size, shape));
  list.push_back(norm_scale("post_feedforward_layernorm.weight", shape.hidden_size, shape));
  add_mlp_parameters(shape, list);
  return list;
}

Variable sandwich_layer(const ModelShape& shape, Variable x, std::span<const Variable> parameters,
                        const LayerConstants& constants) {
  Reader weights(parameters);
  const Variable input_norm = weights.next();
  const AttentionWeights attention = read_attention(shape, weights);
  const Variable attended_norm = weights.next();
  const Variable mlp_norm = weights.next();
  const Variable output_norm = weights.next();
  const Variable attended = attention_block(shape, model_norm(shape, x, input_norm), attention, constants);
  return add_mlp(shape, add(x, model_norm(shape, attended, attended_norm)), mlp_norm, output_norm, weights);
}

}  // namespace maxtext
