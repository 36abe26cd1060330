#include "ops/attention.h"

namespace maxtext {
namespace {

struct Group {
  std::int64_t kv_heads;
  std::int64_t kv_head_begin;
  double softcap;
};

/// The rules for the first six inputs, which forward and backward share.
void check_common(std::string_view name, Group group, InputSpecs in) {
  const Shape& q = in[0].shape;
  const Shape& k = in[1].shape;
  require_floating(in[0].dtype, name, in);
  require_shape(q.size() == 4, name, in, "q must be [B, T, query_heads, D]");
  require_shape(k.size() == 5 && in[1] == in[2], name, in, "k and v must have one spec [P, B, T_kv, heads, D]");
  require_shape(in[0].dtype == in[1].dtype, name, in, "q, k and v must have one dtype");
  require_shape(k[1] == q[0] && k[4] == q[3], name, in, "q and k must agree in batch and head_dim");
  require_shape(in[3] == TensorSpec{{q[0], k[0] * k[2]}, DType::int32}, name, in,
                "gathered_slots must be int32 [B, P·T_kv]");
  const TensorSpec interval{{q[0], q[1]}, DType::int32};
  require_shape(in[4] == interval && in[5] == interval, name, in, "key_begin and key_end must be int32 [B, T]");
  require_shape(group.kv_heads > 0 && q[2] % group.kv_heads == 0, name, in,
                "query_heads must be a multiple of kv_heads");
  require_shape(group.kv_head_begin >= 0 && group.kv_head_begin + k[3] <= group.kv_heads, name, in,
                "kv_head_begin + heads must lie within kv_heads");
  require_shape(group.softcap >= 0, name, in, "softcap must be positive, or 0 for none");
}

TensorSpec logsumexp_spec(const TensorSpec& q) {
  return {{q.shape[0], q.shape[2], q.shape[1]}, accumulation_dtype(q.dtype)};
}

/// Of the two products of a forward pass, for the query heads of this group.
double forward_flops(double area, std::int64_t kv_heads, InputSpecs in) {
  const std::int64_t group_query_heads = in[1].shape[3] * (in[0].shape[2] / kv_heads);
  return 4 * area * static_cast<double>(group_query_heads) * static_cast<double>(in[0].shape[3]);
}

}  // namespace

std::vector<OutputSpec> AttentionForward::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {6, 8});
  check_common(name, {kv_heads, kv_head_begin, softcap}, inputs);
  const TensorSpec logsumexp = logsumexp_spec(inputs[0]);
  const bool in_place = inputs.size() == 8;
  if (in_place) {
    require_shape(inputs[6] == inputs[0], name, inputs, "o must have the spec of q");
    require_shape(inputs[7] == logsumexp, name, inputs,
                  "logsumexp must be [B, query_heads, T] in the accumulation dtype");
  }
  return {{.spec = inputs[0], .aliases_input = in_place ? 6 : -1},
          {.spec = logsumexp, .aliases_input = in_place ? 7 : -1}};
}

double AttentionForward::flops(InputSpecs inputs) const { return forward_flops(area, kv_heads, inputs); }

std::vector<OutputSpec> AttentionBackward::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {9, 10});
  check_common(name, {kv_heads, kv_head_begin, softcap}, inputs);
  require_shape(inputs[6] == inputs[0] && inputs[8] == inputs[0], name, inputs, "o and do must have the spec of q");
  require_shape(inputs[7] == logsumexp_spec(inputs[0]), name, inputs,
                "logsumexp must be [B, query_heads, T] in the accumulation dtype");
  const bool in_place = inputs.size() == 10;
  if (in_place) require_shape(inputs[9] == inputs[0], name, inputs, "dq must have the spec of q");
  const TensorSpec key_gradient{inputs[1].shape, accumulation_dtype(inputs[1].dtype)};
  return {{.spec = inputs[0], .aliases_input = in_place ? 9 : -1}, {.spec = key_gradient}, {.spec = key_gradient}};
}

double AttentionBackward::flops(InputSpecs inputs) const { return 2.5 * forward_flops(area, kv_heads, inputs); }

}  // namespace maxtext
