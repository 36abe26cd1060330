// The text of a whole training step, on no device.
#include <gtest/gtest.h>

#include <string>

#include "model/tensor_parallel.h"
#include "testing_model/model_run.h"
#include "train/train_step.h"
#include "xla/traced_text.h"

namespace maxtext::testing {
namespace {

struct StepCase {
  ModelShape shape = small_shape(4, 2, {0, 0});
  std::array<int, 4> mesh = {1, 1, 1, 1};
  std::string remat = "full";
  int micro_batches = 1;
  std::vector<std::vector<std::int64_t>> documents = {{33}, {20, 13}, {33}, {7}};
  DType dtype = DType::float32;

  StepCase() { shape.vocab_size = 64; }
};

/// The second step of training, as `device` traces it.
std::string step_text(const StepCase& c, int device = 0) {
  const Mesh mesh = model_mesh(c.shape, c.mesh);
  const LayerAttentionTypes attention = layer_attention_types(c.shape.layer_windows);
  ContextPlanRequest request;
  request.sequence_length = 33;
  request.document_lengths = c.documents;
  request.attention_types = attention.types;
  request.context_parallelism = mesh.size(Axis::context);
  const ContextPlan plan(std::move(request));

  XlaEngine engine(mesh, device, std::make_shared<TextBackend>());
  ParameterShards parameters(engine, model_layout(c.shape, mesh, device), DType::float32, c.dtype);
  Optimizer optimizer(parameters, {});
  Decoder decoder(engine, c.shape, attention.of_layer, {.remat = remat_policy(c.remat), .dtype = c.dtype});
  TrainStep step(decoder, parameters, optimizer);
  const auto micro_batch = [&](int m) {
    return make_device_batch_shapes(engine, plan, device_rows(mesh, device, plan.rows(), c.micro_batches, m));
  };
  for (const int index : {0, 1}) step.run(index, 1e-3, c.micro_batches, micro_batch, 1.0);
  return engine.last_program();
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(XlaTracedStep, AllDevicesTraceTheSame) {
  StepCase c;
  c.mesh = {1, 2, 2, 2};
  const std::string first = step_text(c);
  EXPECT_NE(first.find("reduce_scatter"), std::string::npos);
  for (int device = 1; device < 8; ++device) EXPECT_EQ(step_text(c, device), first) << device;
}

TEST(XlaTracedStep, DependsOnShapesOnly) {
  StepCase c;
  c.mesh = {1, 1, 2, 1};
  const std::string text = step_text(c);
  c.documents = {{1, 2, 3}, {33}, {16, 17}, {5}};
  EXPECT_EQ(step_text(c), text);
}

/// The layers are one loop forward and one backward, whatever their number.
TEST(XlaTracedStep, DoesNotGrowWithItsLayers) {
  StepCase c;
  c.shape = small_shape(4, 2, {0, 5, 0, 5});
  const std::string two_periods = step_text(c);
  c.shape = small_shape(4, 2, {0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5});
  const std::string six_periods = step_text(c);
  EXPECT_EQ(count_of(two_periods, "stablehlo.while"), count_of(six_periods, "stablehlo.while"));
  EXPECT_EQ(count_of(two_periods, "stablehlo.dot_general"), count_of(six_periods, "stablehlo.dot_general"));
  // A layer more is a row more where the sums of squares are joined.
  EXPECT_LT(six_periods.size(), two_periods.size() + 12 * 200);
}

/// Weights and both moments of the embedding, the layers and the head.
TEST(XlaTracedStep, OverwritesTheStateThatItIsGiven) {
  EXPECT_EQ(count_of(step_text({}), "tf.aliasing_output"), 9U);
  StepCase two;
  two.micro_batches = 2;
  EXPECT_EQ(count_of(step_text(two), "tf.aliasing_output"), 9U);
}

/// What is alive at the end of a step is state and the few numbers that it reports, not gradients or activations.
TEST(XlaTracedStep, ReturnsStateAndNumbers) {
  const std::string text = step_text({});
  const std::size_t begin = text.rfind("  return ");
  const std::string types = text.substr(text.find(" : ", begin), text.find('\n', begin) - text.find(" : ", begin));
  EXPECT_LE(count_of(types, "tensor<"), 9U + 6U) << types;
}

TEST(XlaTracedStep, Bfloat16MultipliesInBfloat16AndKeepsFloat32State) {
  StepCase c;
  c.dtype = DType::bfloat16;
  c.mesh = {1, 2, 1, 1};
  const std::string text = step_text(c);
  EXPECT_EQ(text.find("HIGHEST"), std::string::npos);
  EXPECT_EQ(count_of(text, "tf.aliasing_output"), 9U);
  EXPECT_EQ(text.substr(0, text.find(") -> ")).find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace maxtext::testing
