// The vjp of each primitive op, over raw ops.
#include <array>

#include "autodiff/function.h"
#include "autodiff/graph.h"
#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::uint32_t bit(int index) { return 1U << static_cast<unsigned>(index); }

// ---- what each pullback reads ----

struct NeedsOf {
  PullbackNeeds operator()(const Embedding&) const { return {.inputs = bit(1) | bit(2)}; }
  PullbackNeeds operator()(const Linear&) const { return {.inputs = bit(0) | bit(1)}; }
  PullbackNeeds operator()(const RmsNorm&) const { return {.inputs = bit(0) | bit(1)}; }
  PullbackNeeds operator()(const Rope&) const { return {.inputs = bit(1) | bit(2)}; }
  PullbackNeeds operator()(const GatedActivation&) const { return {.inputs = bit(0) | bit(1)}; }
  PullbackNeeds operator()(const AttentionForward&) const {
    return {.inputs = bit(0) | bit(1) | bit(2) | bit(3) | bit(4) | bit(5), .outputs = bit(0) | bit(1)};
  }
  PullbackNeeds operator()(const auto&) const { return {}; }
};

struct IsCheap {
  bool operator()(const RmsNorm&) const { return true; }
  bool operator()(const Rope&) const { return true; }
  bool operator()(const RopeTable&) const { return true; }
  bool operator()(const GatedActivation&) const { return true; }
  bool operator()(const Add&) const { return true; }
  bool operator()(const Scale&) const { return true; }
  bool operator()(const Cast&) const { return true; }
  bool operator()(const Fill&) const { return true; }
  bool operator()(const Reshape&) const { return true; }
  bool operator()(const View&) const { return true; }
  bool operator()(const auto&) const { return false; }
};

// ---- the pullbacks ----

/// Adds dy · weight to the cotangent of `input`, into the existing one where that is allowed.
void add_linear_input(Pullback& p, int input, const Tensor& dy, const Tensor& weight) {
  const Tensor destination = p.take_destination(input);
  p.add(input, destination.defined() ? p.engine().apply_one(LinearBackwardInput{}, {dy, weight, destination})
                                     : p.engine().apply_one(LinearBackwardInput{}, {dy, weight}));
}

void pull(const Embedding&, Pullback& p) {
  if (!p.wants(0)) return;
  const auto [destination, accumulate] = p.gradient_destination(0);
  std::vector<Tensor> inputs{p.cotangent(0), p.input(1), destination};
  if (p.input_count() == 3) inputs.push_back(p.input(2));
  p.finish_gradient(0, p.engine().apply(EmbeddingBackward{.accumulate = accumulate}, inputs)[0]);
}

/// The weight first: its gradient is the last to read x, whose memory is then free for that of dx.
void pull(const Linear&, Pullback& p) {
  const Tensor dy = p.cotangent(0);
  if (p.wants(1)) {
    const auto [destination, accumulate] = p.gradient_destination(1);
    p.finish_gradient(
        1, p.engine().apply_one(LinearBackwardWeight{.accumulate = accumulate}, {dy, p.input(0), destination}));
  }
  if (p.wants(0)) add_linear_input(p, 0, dy, p.input(1));
  if (p.input_count() == 3 && p.wants(2)) {
    const auto [destination, accumulate] = p.gradient_destination(2);
    p.finish_gradient(2, p.engine().apply_one(BiasBackward{.accumulate = accumulate}, {dy, destination}));
  }
}

void pull(const RmsNorm& op, Pullback& p) {
  const auto [destination, accumulate] = p.gradient_destination(1);
  const RmsNormBackward backward{.epsilon = op.epsilon, .weight_offset = op.weight_offset, .accumulate = accumulate};
  const std::vector<Tensor> gradients =
      p.engine().apply(backward, {p.cotangent(0), p.input(0), p.input(1), destination});
  p.add(0, gradients[0]);
  if (p.wants(1)) p.finish_gradient(1, gradients[1]);
}

void pull(const Rope& op, Pullback& p) {
  p.add(0, p.engine().apply_one(Rope{.inverse = !op.inverse}, {p.cotangent(0), p.input(1), p.input(2)}));
}

void pull(const GatedActivation& op, Pullback& p) {
  const Tensor gate = p.input(0);
  const Tensor up = p.input(1);
  // The widest tensors of a layer: their gradients take their place where nobody else holds them.
  const bool in_place = gate.storage().use_count() == 1 && up.storage().use_count() == 1;
  const std::vector<Tensor> gradients = p.engine().apply(
      GatedActivationBackward{.activation = op.activation, .in_place = in_place}, {p.cotangent(0), gate, up});
  p.add(0, gradients[0]);
  p.add(1, gradients[1]);
}

void pull(const Add&, Pullback& p) {
  p.add(0, p.cotangent(0), false);
  p.add(1, p.cotangent(0), false);
}

void pull(const Scale& op, Pullback& p) {
  p.add(0, p.engine().apply_one(Scale{.factor = op.factor}, {p.cotangent(0)}));
}

void pull(const Cast&, Pullback& p) {
  p.add(0, p.engine().apply_one(Cast{.dtype = p.input_spec(0).dtype}, {p.cotangent(0)}));
}

void pull(const Reshape&, Pullback& p) {
  p.add(0, p.engine().apply_one(Reshape{.shape = p.input_spec(0).shape}, {p.cotangent(0)}), false);
}

void pull(const AttentionForward& op, Pullback& p) {
  const AttentionBackward backward{.scale = op.scale,
                                   .softcap = op.softcap,
                                   .kv_heads = op.kv_heads,
                                   .kv_head_begin = op.kv_head_begin,
                                   .area = op.area};
  const std::vector<Tensor> gradients =
      p.engine().apply(backward, {p.input(0), p.input(1), p.input(2), p.input(3), p.input(4), p.input(5), p.output(0),
                                  p.output(1), p.cotangent(0)});
  for (int i = 0; i < 3; ++i) p.add(i, gradients[static_cast<std::size_t>(i)]);
}

template <typename T>
void pull(const T&, Pullback&) {
  fail("{} has no derivative", T::name);
}

class Primitive final : public Function {
 public:
  explicit Primitive(Op op)
      : op_(std::move(op)), needs_(std::visit(NeedsOf{}, op_)), cheap_(std::visit(IsCheap{}, op_)) {}

  std::string_view name() const override { return op_name(op_); }

  std::vector<TensorSpec> infer(InputSpecs inputs) const override {
    std::vector<TensorSpec> specs;
    for (const OutputSpec& output : maxtext::infer(op_, inputs)) specs.push_back(output.spec);
    return specs;
  }

  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    return engine.apply(op_, inputs);
  }

  PullbackNeeds needs() const override { return needs_; }
  bool cheap() const override { return cheap_; }

  void pullback(Pullback& context) const override {
    std::visit([&](const auto& op) { pull(op, context); }, op_);
  }

 private:
  Op op_;
  PullbackNeeds needs_;
  bool cheap_;
};

}  // namespace

std::shared_ptr<const Function> primitive(Op op) { return std::make_shared<Primitive>(std::move(op)); }

}  // namespace maxtext
