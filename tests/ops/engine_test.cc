// What Engine::apply does around an op, and that the dry engine takes the memory that the cpu engine takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cpu/device.h"
#include "engines/dry/dry_engine.h"

namespace maxtext::testing {
namespace {

TEST(Engine, UndefinedInputsAndWrongShapesNameTheOp) {
  CpuDevice device;
  const Tensor x = put(*device, {2}, std::vector<float>{1, 2});
  EXPECT_THAT(
      [&] {
        device->apply_one(Add{}, {x, Tensor()});
      },
      ::testing::ThrowsMessage<Error>("add: input 1 is undefined"));
  EXPECT_THROW(device->apply_one(Add{}, {x, put(*device, {1}, std::vector<float>{1})}), Error);
  EXPECT_THROW(device->apply_one(GatedActivationBackward{}, {x, x, x}), Error);
  EXPECT_THROW(device->input({{3}, DType::float32}, std::vector<std::byte>(8)), Error);
  EXPECT_THROW(get<double>(*device, x), Error);
}

TEST(Engine, ViewsShareMemoryAndDonatedInputsAreReused) {
  CpuDevice device;
  const Tensor x = put(*device, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::int64_t live = device->memory().live_bytes();
  const Tensor row = device->apply_one(Slice{.axis = 0, .start = 1, .length = 1}, {x});
  const Tensor view = device->apply_one(View{.first_element = 2, .shape = {2, 2}}, {x});
  const Tensor sum = device->apply_one(Add{.in_place = true}, {row, row});
  EXPECT_EQ(device->memory().live_bytes(), live);
  EXPECT_EQ(get<float>(*device, sum), (std::vector<float>{8, 10, 12}));
  EXPECT_EQ(get<float>(*device, view), (std::vector<float>{3, 8, 10, 12}));
}

TEST(Engine, CountsFlops) {
  CpuDevice device;
  device->apply_one(Linear{}, {random<float>(*device, {3, 5}, 1), random<float>(*device, {7, 5}, 2)});
  EXPECT_EQ(device->flops(), 2.0 * 3 * 5 * 7);
}

/// A little of everything that allocates, frees, aliases or views.
void scripted_step(Engine& engine) {
  const auto input = [&](Shape shape, DType dtype) {
    const TensorSpec spec{std::move(shape), dtype};
    return engine.input(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
  };
  const Tensor shard = engine.allocate_shard({{64 * 16}, DType::float32}, Axis::context);
  const std::vector<std::byte> zeros(static_cast<std::size_t>(shard.spec().bytes()));
  engine.write(shard, zeros);
  const Tensor x = input({10, 16}, DType::float32);
  Tensor kept;
  {
    const MemoryKindScope scope(engine.memory(), MemoryKind::gathered_parameters);
    const Tensor flat = engine.apply_one(AllGather{Axis::context, 1}, {shard});
    const Tensor weight = engine.apply_one(View{.first_element = 0, .shape = {64, 16}}, {flat});
    kept = engine.apply_one(Linear{}, {x, weight});
  }
  const Tensor y = engine.apply_one(GatedActivation{}, {kept, kept});
  const Tensor summed = engine.apply_one(Add{.in_place = true}, {y, kept});
  kept = Tensor();
  const Tensor part = engine.apply_one(Slice{.axis = 1, .start = 0, .length = 32}, {summed});
  const Tensor wide = engine.apply_one(Concat{.axis = 1}, {part, summed});
  const Tensor total = engine.apply_one(Sum{}, {wide});
  engine.apply_one(AllReduce{Axis::context, 1}, {total});
}

TEST(Engine, DryMemoryIsThatOfTheCpuEngine) {
  CpuDevice device;
  DryEngine dry(Mesh({1, 1, 1, 1}), 0);
  for (int step = 0; step < 2; ++step) {
    scripted_step(*device);
    scripted_step(dry);
  }
  EXPECT_GT(dry.memory().peak_bytes(), 0);
  EXPECT_EQ(dry.memory().peak_bytes(), device->memory().peak_bytes());
  EXPECT_EQ(dry.memory().peak_by_kind(), device->memory().peak_by_kind());
  EXPECT_EQ(dry.memory().live_bytes(), 0);
  EXPECT_EQ(device->memory().live_bytes(), 0);
  EXPECT_EQ(dry.flops(), device->flops());
}

TEST(Engine, WarmStepsTouchNoNewMemory) {
  CpuDevice device(2);
  scripted_step(*device);
  const std::int64_t pooled = device->pooled_bytes();
  for (int step = 0; step < 3; ++step) scripted_step(*device);
  EXPECT_EQ(device->pooled_bytes(), pooled);
}

TEST(Engine, DryCountsAreThoseOfTheCommunicators) {
  constexpr int kDevices = 2;
  ThreadTransport transport(Mesh({1, 1, kDevices, 1}));
  const auto program = [](Engine& engine) {
    const TensorSpec spec{{4, 3}, DType::float32};
    const Tensor x = engine.input(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
    const Tensor shard = engine.allocate_shard({{8}, DType::float32}, Axis::context);
    engine.write(shard, std::vector<std::byte>(16));
    const std::vector<Tensor> gathered = engine.apply(AllGather{Axis::context, kDevices}, {x, x});
    const Tensor whole = engine.apply_one(AllGather{Axis::context, kDevices}, {shard});
    const Tensor scattered = engine.apply_one(ReduceScatter{Axis::context, kDevices}, {gathered[0]});
    const Tensor sum = engine.apply_one(Sum{}, {scattered});
    std::vector<std::byte> value(8);
    engine.read(engine.apply_one(AllReduce{Axis::context, kDevices}, {sum}), value);
  };
  DryEngine dry(Mesh({1, 1, kDevices, 1}), 0, {.shares_memory = true});
  program(dry);
  std::vector<std::thread> threads;
  for (int device = 0; device < kDevices; ++device) {
    threads.emplace_back([&, device] {
      const std::unique_ptr<Communicator> communicator = transport.communicator(device);
      ASSERT_TRUE(communicator->shares_memory());
      CpuEngine engine({}, *communicator);
      program(engine);
      EXPECT_EQ(engine.memory().peak_bytes(), dry.memory().peak_bytes());
      for (const CollectiveKind kind :
           {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
        EXPECT_EQ(communicator->counters().of(kind).calls, dry.counters().of(kind).calls) << collective_name(kind);
        EXPECT_EQ(communicator->counters().of(kind).bytes, dry.counters().of(kind).bytes) << collective_name(kind);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace maxtext::testing
