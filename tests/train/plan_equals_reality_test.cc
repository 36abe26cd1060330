// What the dry engine predicts is what the cpu engine does: peak memory by kind, every collective, FLOPs.
#include <gtest/gtest.h>

#include <mutex>

#include "engines/cpu/cpu_engine.h"
#include "engines/dry/dry_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "model/tensor_parallel.h"
#include "testing_model/model_run.h"
#include "testing_model/step_run.h"

namespace maxtext::testing {
namespace {

/// Notes what is started; with `private_memory` devices do not share memory, as under MPI.
class NotingCommunicator final : public Communicator {
 public:
  NotingCommunicator(std::unique_ptr<Communicator> inner, bool private_memory)
      : inner_(std::move(inner)), private_memory_(private_memory) {}

  const Mesh& mesh() const override { return inner_->mesh(); }
  int device() const override { return inner_->device(); }
  std::unique_ptr<PendingCollective> start(CollectiveRequest request) override {
    noted.push_back({request.kind, request.axes, logical_bytes(request, mesh().size(request.axes))});
    return inner_->start(std::move(request));
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  const CollectiveCounters& counters() const override { return inner_->counters(); }
  bool shares_memory() const override { return !private_memory_ && inner_->shares_memory(); }
  GroupMemory allocate_shared(AxisSet axes, std::int64_t bytes_per_rank) override {
    return private_memory_ ? Communicator::allocate_shared(axes, bytes_per_rank)
                           : inner_->allocate_shared(axes, bytes_per_rank);
  }

  std::vector<RecordedCollective> noted;

 private:
  std::unique_ptr<Communicator> inner_;
  bool private_memory_;
};

struct Account {
  std::int64_t peak = 0;
  MemoryByKind by_kind{};
  double flops = 0;
  std::vector<RecordedCollective> collectives;
};

std::vector<Account> reality(const StepCase& step, const ContextPlan& plan, bool shares_memory) {
  ThreadTransport transport{model_mesh(step.shape, step.mesh)};
  std::vector<Account> accounts(static_cast<std::size_t>(transport.mesh().device_count()));
  run_devices(
      transport.local_devices(),
      [&](int device) {
        NotingCommunicator communicator(transport.communicator(device), !shares_memory);
        CpuEngine engine({.threads = 1}, communicator);
        double before = 0;
        real_step(step, plan, engine, [&] {
          communicator.noted.clear();
          before = engine.flops();
        });
        accounts[static_cast<std::size_t>(device)] = {engine.memory().peak_bytes(), engine.memory().peak_by_kind(),
                                                      engine.flops() - before, communicator.noted};
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return accounts;
}

Account prediction(const StepCase& step, const ContextPlan& plan, int device, bool shares_memory) {
  DryEngine engine(model_mesh(step.shape, step.mesh), device, {.shares_memory = shares_memory});
  double before = 0;
  dry_step(setup_of(step), plan, engine, [&] {
    engine.reset_records();
    before = engine.flops();
  });
  return {engine.memory().peak_bytes(), engine.memory().peak_by_kind(), engine.flops() - before, engine.collectives()};
}

ModelShape divisible(ModelShape shape) {
  shape.vocab_size = 64;
  return shape;
}

std::vector<StepCase> cases() {
  std::vector<StepCase> all;
  ModelShape tied = small_shape(4, 2, {0, 0});
  tied.tie_word_embeddings = true;
  ModelShape qwen = small_shape(4, 1, {0, 7, 0});
  qwen.family = "qwen3";
  qwen.qk_norm = true;
  const auto add = [&](std::string name, ModelShape shape, std::array<int, 4> mesh, std::string remat,
                       int micro_batches, const std::vector<std::vector<std::int64_t>>& documents) {
    RowBatch batch = random_batch(40, documents, shape.vocab_size, 43);
    all.push_back({std::move(name), std::move(shape), mesh, std::move(remat), micro_batches, std::move(batch)});
  };
  for (const char* remat : {"full", "minimal", "none"}) {
    add("one device", small_shape(6, 2, {0, 0}), {1, 1, 1, 1}, remat, 1, {{40}, {13, 20}});
    add("context 2", small_shape(8, 4, {0, 9, 0}), {1, 1, 2, 1}, remat, 1, {{40}, {1, 30, 9}});
    add("context 3 and windows", small_shape(6, 3, {5, 0, 11, 0}), {1, 1, 3, 1}, remat, 1, {{39}});
    add("fsdp 2, tied", tied, {1, 2, 1, 1}, remat, 1, {{40}, {20, 20}});
    add("data 2, fsdp 2, context 2, accumulation", small_shape(6, 2, {0, 6}), {2, 2, 2, 1}, remat, 2,
        {{40}, {3, 37}, {10, 1, 12}, {1}, {40}, {20, 20}, {8, 8, 8}, {39}});
    add("norms on heads, one KV head, accumulation", qwen, {1, 1, 2, 1}, remat, 3, {{40}, {7, 7}, {40}});
    add("Gemma 2, context 2", small_gemma2({9, 0, 9}), {1, 1, 2, 1}, remat, 2, {{40}, {20, 20}});
    add("Gemma 3, fsdp 2", small_gemma3({9, 9, 0}), {1, 2, 1, 1}, remat, 1, {{40}, {20, 20}});
    add("tensor 2, context 2", divisible(small_shape(8, 4, {0, 9, 0})), {1, 1, 2, 2}, remat, 1, {{40}, {1, 30, 9}});
    add("tensor 4 of 2 KV heads, Gemma 3, accumulation", divisible(small_gemma3({9, 0})), {1, 1, 1, 4}, remat, 2,
        {{40}, {20, 20}});
    add("context 2, twelve KV heads", small_shape(12, 12, {0}), {1, 1, 2, 1}, remat, 1, {{40}});
  }
  return all;
}

class PlanEqualsReality : public ::testing::TestWithParam<bool> {};

TEST_P(PlanEqualsReality, MemoryCollectivesAndFlopsOfEveryDevice) {
  for (const StepCase& step : cases()) {
    const ContextPlan plan = plan_of(step);
    const std::vector<Account> actual = reality(step, plan, GetParam());
    for (std::size_t device = 0; device < actual.size(); ++device) {
      const Account expected = prediction(step, plan, static_cast<int>(device), GetParam());
      const std::string what = step.name + " remat " + step.remat + " device " + std::to_string(device);
      EXPECT_EQ(actual[device].peak, expected.peak) << what;
      EXPECT_EQ(actual[device].by_kind, expected.by_kind) << what;
      EXPECT_EQ(actual[device].flops, expected.flops) << what;
      EXPECT_EQ(actual[device].collectives, expected.collectives) << what;
      EXPECT_GT(expected.flops, 0) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, PlanEqualsReality, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "shared" : "private"; });

/// The areas that FLOPs are counted from are those of the plan and of the arrays that the kernels read.
TEST(AttentionArea, OfInputsShapesAndPlanAgree) {
  for (const StepCase& step : cases()) {
    const ContextPlan plan = plan_of(step);
    const Mesh mesh(step.mesh);
    std::vector<std::vector<double>> per_context(
        plan.attention_types().size(), std::vector<double>(static_cast<std::size_t>(mesh.size(Axis::context)), 0.0));
    for (int device = 0; device < mesh.device_count(); ++device) {
      DryEngine engine(mesh, device);
      const int context = mesh.group_rank(device, Axis::context);
      for (int m = 0; m < step.micro_batches; ++m) {
        const RowRange rows = device_rows(mesh, device, plan.rows(), step.micro_batches, m);
        const DeviceBatch with_data = make_device_batch(engine, plan, step.batch, rows);
        const DeviceBatch shapes = make_device_batch_shapes(engine, plan, rows);
        for (std::size_t type = 0; type < plan.attention_types().size(); ++type) {
          double counted = 0;
          for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
            const KeyIntervals intervals = plan.key_intervals(row, context, type);
            for (std::size_t i = 0; i < intervals.begin.size(); ++i) counted += intervals.end[i] - intervals.begin[i];
          }
          EXPECT_EQ(with_data.intervals[type].area, counted) << step.name;
          EXPECT_EQ(shapes.intervals[type].area, counted) << step.name;
          // Devices along the tensor axes have the same tokens, and other heads.
          if (mesh.group_rank(device, kTensorAxes) == 0)
            per_context[type][static_cast<std::size_t>(context)] += counted;
        }
      }
    }
    for (std::size_t type = 0; type < plan.attention_types().size(); ++type) {
      const std::vector<std::int64_t> planned = plan.area(type);
      EXPECT_EQ(per_context[type], std::vector<double>(planned.begin(), planned.end())) << step.name;
    }
  }
}

}  // namespace
}  // namespace maxtext::testing
