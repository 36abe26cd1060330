#include "attention/all_gather_attention.h"

#include <optional>

namespace maxtext {
namespace {

// Positions of the function's inputs.
enum Input { kQuery, kKey, kValue, kSlots, kBegin, kEnd };

class AllGatherAttention final : public Function {
 public:
  AllGatherAttention(double scale, double area, int group_size) : scale_(scale), area_(area), group_size_(group_size) {}

  std::string_view name() const override { return "all_gather_attention"; }

  std::vector<TensorSpec> infer(InputSpecs inputs) const override {
    std::vector<TensorSpec> local(inputs.begin(), inputs.end());
    for (const int i : {kKey, kValue}) {
      Shape& shape = local[static_cast<std::size_t>(i)].shape;
      shape.insert(shape.begin(), group_size_);
    }
    const std::int64_t kv_heads = inputs[kKey].shape.at(2);
    const std::vector<OutputSpec> outputs = maxtext::infer(forward_op(kv_heads, 0), local);
    return {outputs[0].spec, outputs[1].spec};
  }

  std::vector<Tensor> forward(Engine& engine, std::span<const Tensor> inputs) const override {
    const std::int64_t kv_heads = inputs[kKey].dim(2);
    const std::int64_t group_heads = heads_per_group(kv_heads);
    std::vector<Tensor> state;  // o and logsumexp, once the first group has made them
    std::vector<Tensor> next = gather(engine, inputs, 0, group_heads);
    for (std::int64_t begin = 0; begin < kv_heads; begin += group_heads) {
      const std::vector<Tensor> kv = std::move(next);
      if (begin + group_heads < kv_heads) next = gather(engine, inputs, begin + group_heads, group_heads);
      std::vector<Tensor> arguments = {inputs[kQuery], kv[0], kv[1], inputs[kSlots], inputs[kBegin], inputs[kEnd]};
      arguments.insert(arguments.end(), state.begin(), state.end());
      state = engine.apply(forward_op(kv_heads, begin), arguments);
    }
    return state;
  }

  PullbackNeeds needs() const override { return {.inputs = 0b111111, .outputs = 0b11}; }

  void pullback(Pullback& p) const override {
    Engine& engine = p.engine();
    const std::vector<Tensor> inputs = {p.input(kQuery), p.input(kKey),   p.input(kValue),
                                        p.input(kSlots), p.input(kBegin), p.input(kEnd)};
    const Tensor o = p.output(0);
    const Tensor logsumexp = p.output(1);
    const Tensor d_o = p.cotangent(0);
    const std::int64_t kv_heads = inputs[kKey].dim(2);
    const std::int64_t group_heads = heads_per_group(kv_heads);
    Tensor dq;
    std::vector<Tensor> dk_parts;
    std::vector<Tensor> dv_parts;
    std::vector<Tensor> next = gather(engine, inputs, 0, group_heads);
    for (std::int64_t begin = 0; begin < kv_heads; begin += group_heads) {
      const std::vector<Tensor> kv = std::move(next);
      if (begin + group_heads < kv_heads) next = gather(engine, inputs, begin + group_heads, group_heads);
      std::vector<Tensor> arguments = {inputs[kQuery], kv[0], kv[1], inputs[kSlots], inputs[kBegin], inputs[kEnd], o,
                                       logsumexp,      d_o};
      if (dq.defined()) arguments.push_back(dq);
      const AttentionBackward op{.scale = scale_, .kv_heads = kv_heads, .kv_head_begin = begin, .area = area_};
      std::vector<Tensor> gradients = engine.apply(op, arguments);
      dq = gradients[0];
      // Reduced over devices while the next group computes; waited for at the concat below.
      std::vector<Tensor> reduced =
          engine.apply(ReduceScatter{.axes = Axis::context, .group_size = group_size_}, {gradients[1], gradients[2]});
      dk_parts.push_back(std::move(reduced[0]));
      dv_parts.push_back(std::move(reduced[1]));
    }
    p.add(kQuery, dq);
    p.add(kKey, join(engine, dk_parts, p.input_spec(kKey).dtype));
    p.add(kValue, join(engine, dv_parts, p.input_spec(kValue).dtype));
  }

 private:
  /// One KV head at a time where there are few; at most eight groups, so that messages do not become small.
  std::int64_t heads_per_group(std::int64_t kv_heads) const {
    if (group_size_ == 1) return kv_heads;
    std::int64_t heads = (kv_heads + 7) / 8;
    while (kv_heads % heads != 0) ++heads;
    return heads;
  }

  AttentionForward forward_op(std::int64_t kv_heads, std::int64_t begin) const {
    return {.scale = scale_, .kv_heads = kv_heads, .kv_head_begin = begin, .area = area_};
  }

  /// Starts gathering K and V of the heads [begin, begin + heads): [P, B, T, heads, D] each, in one message.
  std::vector<Tensor> gather(Engine& engine, std::span<const Tensor> inputs, std::int64_t begin,
                             std::int64_t heads) const {
    std::vector<Tensor> local = {inputs[kKey], inputs[kValue]};
    if (heads != local[0].dim(2)) {
      for (Tensor& tensor : local) {
        tensor = engine.apply_one(Slice{.axis = 2, .start = begin, .length = heads}, {tensor});
      }
    }
    return engine.apply(AllGather{.axes = Axis::context, .group_size = group_size_}, local);
  }

  static Tensor join(Engine& engine, const std::vector<Tensor>& parts, DType dtype) {
    Tensor joined = parts.size() == 1 ? parts[0] : engine.apply(Concat{.axis = 2}, parts)[0];
    return joined.dtype() == dtype ? joined : engine.apply_one(Cast{.dtype = dtype}, {joined});
  }

  double scale_;
  double area_;
  int group_size_;
};

}  // namespace

Variable all_gather_attention(Variable q, Variable k, Variable v, const AttentionInputs& inputs, double scale) {
  Graph& graph = q.graph();
  const int group_size = graph.engine().mesh().size(Axis::context);
  return graph.apply(std::make_shared<AllGatherAttention>(scale, inputs.area, group_size),
                     {q, k, v, inputs.gathered_slots, inputs.key_begin, inputs.key_end}, "context")[0];
}

}  // namespace maxtext
