// Laws 1 and 2: every rank runs the same program, whatever its data, and no op lets the host read tensors in a step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "model/tensor_parallel.h"
#include "testing_model/model_run.h"
#include "testing_model/step_run.h"

namespace maxtext::testing {
namespace {

/// The attributes of an op as text. Attention's area counts FLOPs and is the one attribute that may differ.
struct Attributes {
  std::string operator()(const AllGather& op) const { return fmt::format("{} {}", to_string(op.axes), op.group_size); }
  std::string operator()(const ReduceScatter& op) const {
    return fmt::format("{} {}", to_string(op.axes), op.group_size);
  }
  std::string operator()(const AllReduce& op) const {
    return fmt::format("{} {} {}", to_string(op.axes), op.group_size, static_cast<int>(op.reduce));
  }
  std::string operator()(const AttentionForward& op) const {
    return fmt::format("{} {} {} {}", op.scale, op.softcap, op.kv_heads, op.kv_head_begin);
  }
  std::string operator()(const AttentionBackward& op) const {
    return fmt::format("{} {} {} {}", op.scale, op.softcap, op.kv_heads, op.kv_head_begin);
  }
  std::string operator()(const LinearCrossEntropy& op) const {
    return fmt::format("{} {} {} {} {}", op.chunk_tokens, op.z_loss_multiplier, op.softcap, op.with_gradient,
                       op.accumulate);
  }
  std::string operator()(const CrossEntropyFromStatistics& op) const {
    return fmt::format("{} {} {} {}", op.vocabulary, op.z_loss_multiplier, op.softcap, op.with_gradient);
  }
  std::string operator()(const RmsNorm& op) const { return fmt::format("{} {}", op.epsilon, op.weight_offset); }
  std::string operator()(const RmsNormBackward& op) const {
    return fmt::format("{} {} {}", op.epsilon, op.weight_offset, op.accumulate);
  }
  std::string operator()(const LinearBackwardWeight& op) const { return fmt::format("{}", op.accumulate); }
  std::string operator()(const EmbeddingBackward& op) const { return fmt::format("{}", op.accumulate); }
  std::string operator()(const BiasBackward& op) const { return fmt::format("{}", op.accumulate); }
  std::string operator()(const Rope& op) const { return fmt::format("{}", op.inverse); }
  std::string operator()(const RopeTable& op) const {
    std::string frequencies;
    for (const double frequency : op.inverse_frequencies) frequencies += fmt::format("{} ", frequency);
    return frequencies;
  }
  std::string operator()(const Add& op) const { return fmt::format("{}", op.in_place); }
  std::string operator()(const GatedActivationBackward& op) const { return fmt::format("{}", op.in_place); }
  std::string operator()(const Scale& op) const { return fmt::format("{}", op.factor); }
  std::string operator()(const Fill& op) const { return fmt::format("{}", op.value); }
  std::string operator()(const Slice& op) const { return fmt::format("{} {} {}", op.axis, op.start, op.length); }
  std::string operator()(const Concat& op) const { return fmt::format("{}", op.axis); }
  std::string operator()(const AdamW& op) const {
    return fmt::format("{} {} {} {} {}", op.b1, op.b2, op.epsilon, op.epsilon_root, op.weight_decay);
  }
  std::string operator()(const ClipFactor& op) const { return fmt::format("{}", op.threshold); }
  std::string operator()(const auto&) const { return {}; }
};

/// Shapes only; writes down what the program does. A tensor is written as its storage's number, offset and spec, so
/// that views and the reuse of memory are part of the text.
class TracingEngine final : public Engine {
 public:
  TracingEngine(Mesh mesh, int device) : mesh_(std::move(mesh)), device_(device) {}

  Tensor allocate(const TensorSpec& spec) override {
    auto storage = std::make_shared<NumberedStorage>(spec.bytes(), next_storage_++);
    return {spec, std::move(storage)};
  }
  Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) override {
    return allocate(shard_spec(spec, mesh_.size(axes)));
  }
  Tensor input(const TensorSpec& spec, std::span<const std::byte> /*bytes*/) override {
    Tensor tensor = allocate(spec);
    note(fmt::format("input{}", text(tensor)));
    return tensor;
  }
  void read(const Tensor& tensor, std::span<std::byte> /*destination*/) override {
    note(fmt::format("read{}", text(tensor)));
  }
  void write(const Tensor& tensor, std::span<const std::byte> /*source*/) override {
    note(fmt::format("write{}", text(tensor)));
  }
  bool has_data() const override { return false; }
  const Mesh& mesh() const override { return mesh_; }
  int device() const override { return device_; }

  std::vector<std::string> trace;

 protected:
  void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    std::string line = fmt::format("op {} [{}]", op_name(op), std::visit(Attributes{}, op));
    for (const Tensor& tensor : inputs) line += text(tensor);
    line += " ->";
    for (const Tensor& tensor : outputs) line += text(tensor);
    note(std::move(line));
  }

 private:
  struct NumberedStorage : Storage {
    NumberedStorage(std::int64_t size, int n) : Storage(size), number(n) {}
    int number;
  };
  static std::string text(const Tensor& tensor) {
    return fmt::format(" #{}+{}:{}", static_cast<const NumberedStorage&>(*tensor.storage()).number,
                       tensor.byte_offset(), to_string(tensor.spec()));
  }
  void note(std::string line) { trace.push_back(std::move(line)); }

  Mesh mesh_;
  int device_;
  int next_storage_ = 0;
};

/// Rows of very different documents, so that devices have different data.
StepCase uneven_case(std::array<int, 4> mesh, const char* remat) {
  ModelShape shape = small_shape(8, 4, {0, 9});
  shape.vocab_size = 64;
  const std::vector<std::vector<std::int64_t>> documents = {{40},      {1}, {0, 5, 1, 30}, {20, 20}, {39},
                                                            {2, 2, 2}, {},  {40}};
  RowBatch batch = random_batch(40, documents, shape.vocab_size, 53);
  return {.name = {},
          .shape = std::move(shape),
          .mesh = mesh,
          .remat = remat,
          .micro_batches = 2,
          .batch = std::move(batch)};
}

std::vector<std::string> trace_of(const StepCase& step, int device) {
  TracingEngine engine(model_mesh(step.shape, step.mesh), device);
  real_step(step, plan_of(step), engine);
  return engine.trace;
}

const std::vector<std::array<int, 4>> kMeshes = {{1, 1, 4, 1}, {1, 2, 2, 1}, {2, 2, 1, 1},
                                                 {2, 1, 3, 1}, {1, 1, 2, 2}, {2, 1, 1, 8}};

TEST(SameProgram, OnEveryRankWhateverItsData) {
  for (const auto& mesh : kMeshes) {
    for (const char* remat : {"full", "none"}) {
      const StepCase step = uneven_case(mesh, remat);
      const std::vector<std::string> expected = trace_of(step, 0);
      ASSERT_GT(expected.size(), 100U);
      for (int device = 1; device < Mesh(mesh).device_count(); ++device) {
        EXPECT_EQ(trace_of(step, device), expected) << "device " << device;
      }
    }
  }
}

TEST(SameProgram, DoesNotDependOnTheBatch) {
  StepCase step = uneven_case({1, 1, 2, 1}, "full");
  const std::vector<std::string> expected = trace_of(step, 0);
  step.batch = random_batch(40, std::vector<std::vector<std::int64_t>>(8, {40}), step.shape.vocab_size, 59);
  EXPECT_EQ(trace_of(step, 0), expected);
}

TEST(SameProgram, TheHostReadsOnlyAfterTheLastOp) {
  for (const auto& mesh : kMeshes) {
    const std::vector<std::string> trace = trace_of(uneven_case(mesh, "full"), 0);
    const auto is = [](const char* word) { return [word](const std::string& line) { return line.starts_with(word); }; };
    const auto first_read = std::find_if(trace.begin(), trace.end(), is("read "));
    ASSERT_NE(first_read, trace.end());
    EXPECT_EQ(std::find_if(first_read, trace.end(), is("op ")), trace.end());
    EXPECT_EQ(std::find_if(first_read, trace.end(), is("input ")), trace.end());
    EXPECT_EQ(std::find_if(trace.begin(), trace.end(), is("write ")), trace.end());
  }
}

}  // namespace
}  // namespace maxtext::testing
