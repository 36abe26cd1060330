#include "model/tensor_parallel.h"

#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

Tensor all_reduce(Engine& engine, AxisSet axes, const Tensor& x) {
  return engine.apply_one(AllReduce{.axes = axes, .group_size = engine.mesh().size(axes)}, {x});
}

/// One input, one output of its spec; its pullback reads neither.
class Border : public Function {
 public:
  explicit Border(AxisSet axes) : axes_(axes) {}
  std::vector<TensorSpec> infer(InputSpecs inputs) const override { return {inputs[0]}; }
  PullbackNeeds needs() const override { return {}; }

 protected:
  AxisSet axes_;
};

class Enter final : public Border {
 public:
  using Border::Border;
  std::string_view name() const override { return "enter_tensor"; }
  bool cheap() const override { return true; }
  std::vector<Tensor> forward(Engine& /*engine*/, std::vector<Tensor> inputs) const override { return inputs; }
  void pullback(Pullback& p) const override { p.add(0, all_reduce(p.engine(), axes_, p.cotangent(0))); }
};

class Leave final : public Border {
 public:
  using Border::Border;
  std::string_view name() const override { return "leave_tensor"; }
  bool asynchronous() const override { return true; }
  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    return {all_reduce(engine, axes_, inputs[0])};
  }
  void pullback(Pullback& p) const override { p.add(0, p.cotangent(0), false); }
};

class Share final : public Border {
 public:
  using Border::Border;
  std::string_view name() const override { return "shared_parameter"; }
  bool cheap() const override { return true; }
  std::vector<Tensor> forward(Engine& /*engine*/, std::vector<Tensor> inputs) const override { return inputs; }
  void pullback(Pullback& p) const override {
    if (!p.wants(0)) return;
    const Tensor sum = all_reduce(p.engine(), axes_, p.cotangent(0));
    const auto [destination, accumulate] = p.gradient_destination(0);
    // The sum over one row is the way into a destination.
    const Tensor row = p.engine().apply_one(Reshape{.shape = {1, sum.elements()}}, {sum});
    p.finish_gradient(0, p.engine().apply_one(BiasBackward{.accumulate = accumulate}, {row, destination}));
  }
};

template <typename F>
Variable cross(Variable x, AxisSet axes, std::string name = {}) {
  Graph& graph = x.graph();
  if (graph.engine().mesh().size(axes) == 1) return x;
  return graph.apply(std::make_shared<F>(axes), {x}, std::move(name))[0];
}

std::int64_t divided(const char* what, std::int64_t size, int parts) {
  if (size % parts != 0) fail_config("ici_tensor_parallelism={} does not divide {}={}", parts, what, size);
  return size / parts;
}

}  // namespace

int kv_replicas(const ModelShape& shape, int tensor_parallelism) {
  if (tensor_parallelism <= shape.kv_heads) return 1;
  const auto kv_heads = static_cast<int>(shape.kv_heads);
  if (tensor_parallelism % kv_heads != 0) {
    fail_config("ici_tensor_parallelism={} is more than the {} KV heads and no multiple of them", tensor_parallelism,
                kv_heads);
  }
  return tensor_parallelism / kv_heads;
}

Mesh model_mesh(const ModelShape& shape, std::array<int, 4> sizes) {
  const Mesh mesh(sizes, kv_replicas(shape, sizes[3]));
  tensor_part(shape, mesh);
  return mesh;
}

ModelShape tensor_part(const ModelShape& shape, const Mesh& mesh) {
  const int parts = mesh.size(kTensorAxes);
  ModelShape part = shape;
  part.query_heads = divided("base_num_query_heads", shape.query_heads, parts);
  part.kv_heads = divided("base_num_kv_heads", shape.kv_heads, mesh.size(Axis::tensor));
  part.intermediate_size = divided("base_mlp_dim", shape.intermediate_size, parts);
  divided("vocab_size", shape.vocab_size, parts);
  return part;
}

Variable enter_tensor(Variable x, AxisSet axes) { return cross<Enter>(x, axes); }

Variable leave_tensor(Variable x, std::string name) { return cross<Leave>(x, kTensorAxes, std::move(name)); }

Variable shared_parameter(Variable parameter, AxisSet axes) { return cross<Share>(parameter, axes); }

}  // namespace maxtext
