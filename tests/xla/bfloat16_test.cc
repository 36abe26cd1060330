// Ops of the training step on bfloat16 activations, against the cpu engine's float32 results for the same values, which
// bfloat16 holds exactly. An op that computes in float32 and rounds once is off by half of the last of 8 bits of
// mantissa: 2⁻⁹ of an element, so at most 2⁻⁸ of the tensor's largest magnitude with room for the float32 arithmetic.
// Rounding twice, or sums in bfloat16, are off by more.
#include <bit>
#include <cmath>
#include <limits>

#include "model/parallel_cross_entropy.h"
#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

constexpr double kRoundedOnce = 1.0 / 256;
constexpr double kFloat32 = 1e-5;

/// Makes tensors that hold bfloat16 numbers, in the dtype of a program's activations.
class Maker {
 public:
  Maker(Engine& engine, DType dtype) : engine_(engine), dtype_(dtype) {}

  Engine& engine() const { return engine_; }
  DType dtype() const { return dtype_; }

  Tensor operator()(Shape shape, const std::vector<float>& values) const {
    std::vector<std::uint16_t> upper;
    for (const float value : values) {
      upper.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    const Tensor stored = engine_.input({std::move(shape), DType::bfloat16}, std::as_bytes(std::span(upper)));
    return dtype_ == DType::bfloat16 ? stored : engine_.apply_one(Cast{dtype_}, {stored});
  }

  Tensor operator()(Shape shape, double phase) const {
    const std::int64_t count = element_count(shape);
    return (*this)(std::move(shape), some_values(count, phase));
  }

 private:
  Engine& engine_;
  DType dtype_;
};

class XlaBfloat16OnPlugin : public XlaOpsOnPlugin {
 protected:
  using Program = std::function<std::vector<Tensor>(const Maker&)>;

  /// Outputs in bfloat16 are within `rounded` of the cpu engine's, those in float32 within `exact`.
  void expect_close(const Program& program, double rounded = kRoundedOnce, double exact = kFloat32) {
    ThreadTransport transport{Mesh(kOneDevice)};
    const std::unique_ptr<Communicator> communicator = transport.communicator(0);
    CpuEngine cpu({.threads = 1}, *communicator);
    XlaEngine xla(kOneDevice, 0, runtime_);
    const std::vector<Tensor> expected = program(Maker(cpu, DType::float32));
    const std::vector<Tensor> actual = program(Maker(xla, DType::bfloat16));
    std::vector<Tensor> floats;
    for (const Tensor& tensor : actual) {
      floats.push_back(tensor.dtype() == DType::float32 ? tensor : xla.apply_one(Cast{DType::float32}, {tensor}));
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double tolerance = actual[i].dtype() == DType::bfloat16 ? rounded : exact;
      const Tensor wanted =
          expected[i].dtype() == DType::float32 ? expected[i] : cpu.apply_one(Cast{DType::float32}, {expected[i]});
      EXPECT_TRUE(
          all_close(read_floats(xla, floats[i]), read_floats(cpu, wanted), tolerance, fmt::format("result {}", i)));
    }
  }
};

TEST_F(XlaBfloat16OnPlugin, Products) {
  expect_close([](const Maker& make) -> std::vector<Tensor> {
    Engine& engine = make.engine();
    const Tensor x = make({2, 3, 400}, 0);
    const Tensor dy = make({2, 3, 8}, 1);
    const Tensor weight = make({8, 400}, 2);
    const Tensor dw = input_of<float>(engine, {8, 400}, some_values(3200, 3));
    const Tensor db = input_of<float>(engine, {8}, some_values(8, 4));
    const Tensor dx = make({2, 3, 400}, 5);
    return {engine.apply_one(Linear{}, {x, weight}),
            engine.apply_one(Linear{}, {x, weight, make({8}, 6)}),
            engine.apply_one(LinearBackwardInput{}, {dy, weight}),
            engine.apply_one(LinearBackwardInput{}, {dy, weight, dx}),
            engine.apply_one(LinearBackwardWeight{.accumulate = true}, {dy, x, dw}),
            engine.apply_one(BiasBackward{.accumulate = true}, {dy, db})};
  });
}

/// Weights as they are stored: float32 activations are not rounded.
TEST_F(XlaOpsOnPlugin, StoredWeightsAreWidened) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const Maker make(engine, DType::bfloat16);
    const Tensor x = input_of<float>(engine, {3, 40}, some_values(120, 0));
    const Tensor ids = input_of<std::int32_t>(engine, {2}, {4, 1});
    return {engine.apply_one(Linear{}, {x, make({8, 40}, 1)}),
            engine.apply_one(Linear{}, {x, make({8, 40}, 1), make({8}, 2)}),
            engine.apply_one(RmsNorm{}, {x, make({40}, 3)}), engine.apply_one(Embedding{}, {make({8, 40}, 4), ids})};
  });
}

TEST_F(XlaBfloat16OnPlugin, Norms) {
  for (const double offset : {0.0, 1.0}) {
    expect_close([&](const Maker& make) -> std::vector<Tensor> {
      Engine& engine = make.engine();
      const Tensor x = make({4, 300}, 0);
      const Tensor weight = make({300}, 1);
      const Tensor dw = input_of<float>(engine, {300}, some_values(300, 2));
      std::vector<Tensor> all =
          engine.apply(RmsNormBackward{.weight_offset = offset}, std::vector<Tensor>{make({4, 300}, 3), x, weight, dw});
      all.push_back(engine.apply_one(RmsNorm{.weight_offset = offset}, {x, weight}));
      return all;
    });
  }
}

TEST_F(XlaBfloat16OnPlugin, RotaryEmbeddings) {
  expect_close([](const Maker& make) -> std::vector<Tensor> {
    Engine& engine = make.engine();
    const std::vector<Tensor> tables =
        engine.apply(RopeTable{.inverse_frequencies = {1, 0.1, 0.01, 0.001}},
                     std::vector<Tensor>{input_of<std::int32_t>(engine, {1, 3}, {0, 1000, 131071})});
    const Tensor x = make({1, 3, 2, 8}, 0);
    return {engine.apply_one(Rope{}, {x, tables[0], tables[1]}),
            engine.apply_one(Rope{.inverse = true}, {x, tables[0], tables[1]})};
  });
}

TEST_F(XlaBfloat16OnPlugin, Activations) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    expect_close([&](const Maker& make) -> std::vector<Tensor> {
      Engine& engine = make.engine();
      const Tensor gate = make({3, 50}, 0);
      const Tensor up = make({3, 50}, 1);
      std::vector<Tensor> all = engine.apply(GatedActivationBackward{.activation = activation},
                                             std::vector<Tensor>{make({3, 50}, 2), gate, up});
      all.push_back(engine.apply_one(GatedActivation{.activation = activation}, {gate, up}));
      return all;
    });
  }
}

TEST_F(XlaBfloat16OnPlugin, Elementwise) {
  expect_close([](const Maker& make) -> std::vector<Tensor> {
    Engine& engine = make.engine();
    std::vector<float> dirty = some_values(60, 2);
    dirty[25] = std::numeric_limits<float>::quiet_NaN();
    const Tensor weights = input_of<float>(engine, {3}, {1, 0, 0.5F});
    return {engine.apply_one(Add{}, {make({3, 20}, 0), make({3, 20}, 1)}),
            engine.apply_one(Scale{.factor = 0.123456}, {make({3, 20}, 0)}),
            engine.apply_one(SoftCap{.cap = 0.7}, {make({3, 20}, 0)}),
            engine.apply_one(MaskRows{}, {make({3, 20}, dirty), weights}),
            engine.apply_one(Cast{DType::bfloat16}, {input_of<float>(engine, {60}, some_values(60, 3))})};
  });
}

TEST_F(XlaBfloat16OnPlugin, EmbeddingsGradientIsSummedInFloat32) {
  expect_close([](const Maker& make) -> std::vector<Tensor> {
    Engine& engine = make.engine();
    const Tensor ids = input_of<std::int32_t>(engine, {100}, std::vector<std::int32_t>(100, 3));
    const Tensor gradient = input_of<float>(engine, {5, 4}, some_values(20, 1));
    return {engine.apply_one(EmbeddingBackward{}, {make({100, 4}, 0), ids, gradient})};
  });
}

/// (hidden, weight, targets, target weights, inverse denominator, destination) of ten tokens; one has weight 0 and NaN.
std::vector<Tensor> loss_inputs(const Maker& make) {
  Engine& engine = make.engine();
  std::vector<float> hidden = some_values(80, 0);
  hidden[20] = std::numeric_limits<float>::quiet_NaN();
  return {make({10, 8}, hidden),
          make({11, 8}, 1),
          input_of<std::int32_t>(engine, {10}, {0, 10, -1, 3, 5, 5, 7, 2, 1, 9}),
          input_of<float>(engine, {10}, {1, 0.5F, 0, 1, 1, 1, 2, 1, 1, 0.25F}),
          input_of<float>(engine, {}, {0.125F}),
          input_of<float>(engine, {11, 8}, some_values(88, 2))};
}

TEST_F(XlaBfloat16OnPlugin, CrossEntropyOfAWholeVocabularyAndOfParts) {
  for (const double softcap : {0.0, 2.0}) {
    const LinearCrossEntropy op{.chunk_tokens = 4, .z_loss_multiplier = 1e-2, .softcap = softcap, .accumulate = false};
    const auto outputs_of = [&](const Maker& make, bool parts) {
      Engine& engine = make.engine();
      const std::vector<Tensor> inputs = loss_inputs(make);
      std::vector<Tensor> outputs =
          parts ? vocabulary_parallel_cross_entropy(engine, op, inputs, input_of<std::int32_t>(engine, {}, {0}))
                : engine.apply(op, inputs);
      outputs[0] = engine.apply_one(Cast{DType::float32}, {outputs[0]});
      return outputs;
    };
    for (const bool parts : {false, true}) {
      // The loss is float32 throughout. Gradients of logits are rounded for the products, and dhidden once more.
      expect_close([&](const Maker& make) {
        std::vector<Tensor> outputs = outputs_of(make, parts);
        outputs.resize(2);
        return outputs;
      });
      expect_close([&](const Maker& make) { return outputs_of(make, parts); }, 2 * kRoundedOnce, kRoundedOnce);
    }
  }
}

TEST_F(XlaOpsOnPlugin, InfinitiesOf16Bits) {
  const auto filled = [](Engine& engine, DType dtype, double value) {
    return engine.apply_one(Cast{DType::float32}, {engine.apply_one(Fill{{{3}, dtype}, value}, {})});
  };
  XlaEngine xla(kOneDevice, 0, runtime_);
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Tensor> results;
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    results.push_back(filled(xla, dtype, -infinity));
    results.push_back(filled(xla, dtype, infinity));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto expected = static_cast<float>(i % 2 == 0 ? -infinity : infinity);
    EXPECT_EQ(read_floats(xla, results[i]), std::vector<float>(3, expected));
  }
}

}  // namespace
}  // namespace maxtext::testing
