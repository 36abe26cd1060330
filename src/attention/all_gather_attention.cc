#include "attention/all_gather_attention.h"

#include <algorithm>
#include <utility>

namespace maxtext {
namespace {

constexpr AxisSet kContext = Axis::context;

/// Heads per group: one where there are few; at most eight groups, so that messages do not become small.
std::int64_t heads_per_group(std::int64_t kv_heads, int group_size) {
  if (group_size == 1) return kv_heads;
  std::int64_t heads = (kv_heads + 7) / 8;
  while (kv_heads % heads != 0) ++heads;
  return heads;
}

Tensor cast_to(Engine& engine, const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : engine.apply_one(Cast{.dtype = dtype}, {x});
}

/// [B, T, heads, D] -> equal parts of the heads. Backward joins the parts' gradients, and so waits for the last of
/// their reductions as late as it can.
class SplitHeads final : public Function {
 public:
  SplitHeads(std::int64_t parts, std::int64_t heads) : parts_(parts), heads_(heads) {}

  std::string_view name() const override { return "split_heads"; }
  bool cheap() const override { return true; }
  PullbackNeeds needs() const override { return {}; }

  std::vector<TensorSpec> infer(InputSpecs inputs) const override {
    TensorSpec part = inputs[0];
    part.shape.at(2) = heads_;
    return std::vector<TensorSpec>(static_cast<std::size_t>(parts_), part);
  }

  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    std::vector<Tensor> parts;
    for (std::int64_t i = 0; i < parts_; ++i) {
      parts.push_back(engine.apply_one(Slice{.axis = 2, .start = i * heads_, .length = heads_}, {inputs[0]}));
    }
    return parts;
  }

  void pullback(Pullback& p) const override {
    std::vector<Tensor> parts;
    for (int i = 0; i < parts_; ++i) parts.push_back(p.cotangent(i));
    const Tensor joined = p.engine().apply(Concat{.axis = 2}, parts)[0];
    parts.clear();
    p.add(0, cast_to(p.engine(), joined, p.input_spec(0).dtype));
  }

 private:
  std::int64_t parts_;
  std::int64_t heads_;
};

/// Starts gathering K and V of one group, [P, B, T, heads, D] each, in one message. No cotangent flows into it: the
/// attention sends the gradients of all groups to their local parts.
class GatherGroup final : public Function {
 public:
  explicit GatherGroup(int group_size) : group_size_(group_size) {}

  std::string_view name() const override { return "gather_keys_and_values"; }
  bool cheap() const override { return true; }
  bool asynchronous() const override { return true; }
  PullbackNeeds needs() const override { return {}; }

  std::vector<TensorSpec> infer(InputSpecs inputs) const override {
    std::vector<TensorSpec> gathered(inputs.begin(), inputs.end());
    for (TensorSpec& spec : gathered) spec.shape.insert(spec.shape.begin(), group_size_);
    return gathered;
  }
  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    return engine.apply(AllGather{.axes = kContext, .group_size = group_size_}, inputs);
  }
  void pullback(Pullback& /*context*/) const override {}

 private:
  int group_size_;
};

/// Inputs: q, gathered slots, key begin, key end, gathered K and V of the first group, then K and V of each group.
class AllGatherFunction final : public Function {
 public:
  AllGatherFunction(const AttentionScores& scores, double area, int group_size, std::int64_t groups)
      : scores_(scores), area_(area), group_size_(group_size), groups_(groups) {}

  std::string_view name() const override { return "all_gather_attention"; }

  PullbackNeeds needs() const override {
    return {.inputs = (1U << static_cast<unsigned>(kFirstGroup + 2 * groups_)) - 1, .outputs = 0b11};
  }

  std::vector<TensorSpec> infer(InputSpecs inputs) const override {
    const std::vector<TensorSpec> arguments = {inputs[kQuery], inputs[kGathered], inputs[kGathered + 1],
                                               inputs[kSlots], inputs[kBegin],    inputs[kEnd]};
    const std::vector<OutputSpec> outputs = maxtext::infer(forward_op(inputs[kGathered].shape.at(3), 0), arguments);
    return {outputs[0].spec, outputs[1].spec};
  }

  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    const std::int64_t heads = inputs[kGathered].dim(3);
    std::vector<Tensor> state;  // o and logsumexp, once the first group has made them
    Travelling next = {std::move(inputs[kGathered]), std::move(inputs[kGathered + 1])};
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Travelling kv = std::exchange(next, {});
      if (group + 1 < groups_) next = gather(engine, inputs[part(group + 1, 0)], inputs[part(group + 1, 1)]);
      std::vector<Tensor> arguments = {inputs[kQuery], kv.keys,        kv.values,
                                       inputs[kSlots], inputs[kBegin], inputs[kEnd]};
      arguments.insert(arguments.end(), state.begin(), state.end());
      state = engine.apply(forward_op(heads, group), arguments);
    }
    return state;
  }

  void pullback(Pullback& p) const override {
    Engine& engine = p.engine();
    const std::vector<Tensor> constants = {p.input(kSlots), p.input(kBegin), p.input(kEnd)};
    const Tensor q = p.input(kQuery);
    const Tensor o = p.output(0);
    const Tensor logsumexp = p.output(1);
    const Tensor d_o = p.cotangent(0);
    Travelling next = {p.input(kGathered), p.input(kGathered + 1)};
    const std::int64_t heads = next.keys.dim(3);
    Tensor dq;
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Travelling kv = std::exchange(next, {});
      if (group + 1 < groups_) {
        next = gather(engine, p.input(static_cast<int>(part(group + 1, 0))),
                      p.input(static_cast<int>(part(group + 1, 1))));
      }
      std::vector<Tensor> arguments = {q, kv.keys,   kv.values, constants[0], constants[1], constants[2],
                                       o, logsumexp, d_o};
      if (dq.defined()) arguments.push_back(dq);
      std::vector<Tensor> gradients = engine.apply(backward_op(heads, group), arguments);
      dq = gradients[0];
      // Reduced over devices while the next group computes.
      std::vector<Tensor> reduced =
          engine.apply(ReduceScatter{.axes = kContext, .group_size = group_size_}, {gradients[1], gradients[2]});
      for (const int i : {0, 1}) {
        const int input = static_cast<int>(part(group, i));
        Tensor& gradient = reduced[static_cast<std::size_t>(i)];
        // Only a single group's is cast here: the cast waits, and the parts of several are cast when they are joined.
        p.add(input, groups_ == 1 ? cast_to(engine, gradient, p.input_spec(input).dtype) : std::move(gradient));
      }
    }
    p.add(kQuery, dq);
  }

 private:
  enum Input : std::size_t { kQuery, kSlots, kBegin, kEnd, kGathered, kFirstGroup = kGathered + 2 };
  struct Travelling {
    Tensor keys;
    Tensor values;
  };

  static std::size_t part(std::int64_t group, int which) {
    return static_cast<std::size_t>(kFirstGroup + 2 * group + which);
  }

  AttentionForward forward_op(std::int64_t heads, std::int64_t group) const {
    return {.scale = scores_.scale,
            .softcap = scores_.softcap,
            .kv_heads = heads * groups_,
            .kv_head_begin = heads * group,
            .area = area_};
  }
  AttentionBackward backward_op(std::int64_t heads, std::int64_t group) const {
    return {.scale = scores_.scale,
            .softcap = scores_.softcap,
            .kv_heads = heads * groups_,
            .kv_head_begin = heads * group,
            .area = area_};
  }

  Travelling gather(Engine& engine, const Tensor& keys, const Tensor& values) const {
    std::vector<Tensor> gathered = engine.apply(AllGather{.axes = kContext, .group_size = group_size_}, {keys, values});
    return {std::move(gathered[0]), std::move(gathered[1])};
  }

  AttentionScores scores_;
  double area_;
  int group_size_;
  std::int64_t groups_;
};

std::vector<Variable> split_heads(Variable x, std::int64_t heads) {
  const std::int64_t parts = x.shape().at(2) / heads;
  if (parts == 1) return {x};
  return x.graph().apply(std::make_shared<SplitHeads>(parts, heads), {x});
}

}  // namespace

KeyValueGroups gather_keys_and_values(Variable k, Variable v) {
  Graph& graph = k.graph();
  const int group_size = graph.engine().mesh().size(Axis::context);
  const std::int64_t heads = heads_per_group(k.shape().at(2), group_size);
  KeyValueGroups groups{
      .keys = split_heads(k, heads), .values = split_heads(v, heads), .gathered_keys = {}, .gathered_values = {}};
  const std::vector<Variable> gathered =
      graph.apply(std::make_shared<GatherGroup>(group_size), {groups.keys[0], groups.values[0]});
  groups.gathered_keys = gathered[0];
  groups.gathered_values = gathered[1];
  return groups;
}

Variable all_gather_attention(Variable q, const KeyValueGroups& groups, const AttentionInputs& inputs,
                              const AttentionScores& scores) {
  Graph& graph = q.graph();
  const int group_size = graph.engine().mesh().size(Axis::context);
  std::vector<Variable> arguments = {
      q, inputs.gathered_slots, inputs.key_begin, inputs.key_end, groups.gathered_keys, groups.gathered_values};
  for (std::size_t i = 0; i < groups.keys.size(); ++i) {
    arguments.push_back(groups.keys[i]);
    arguments.push_back(groups.values[i]);
  }
  const auto function = std::make_shared<AllGatherFunction>(scores, inputs.area, group_size,
                                                            static_cast<std::int64_t>(groups.keys.size()));
  return graph.apply(function, std::move(arguments), "context")[0];
}

}  // namespace maxtext
