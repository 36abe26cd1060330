#include "engines/dry/dry_engine.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace maxtext {
namespace {

TEST(DryEngine, RecordsCollectivesAndFlopsByOp) {
  DryEngine engine(Mesh({1, 2, 4, 1}), 5);
  const Tensor x = engine.input({{3, 5}, DType::float32}, {});
  const Tensor w = engine.input({{7, 5}, DType::float32}, {});
  const Tensor y = engine.apply_one(Linear{}, {x, w});
  engine.apply(AllGather{Axis::context, 4}, {x, x});
  const Tensor parts = engine.allocate({{8, 6}, DType::float64});
  engine.apply_one(ReduceScatter{Axis::fsdp | Axis::context, 8}, {parts});
  engine.apply_one(AllReduce{Axis::fsdp, 2}, {y});
  const std::vector<RecordedCollective> expected{
      {CollectiveKind::all_gather, Axis::context, 3 * 2 * 15 * 4},
      {CollectiveKind::reduce_scatter, Axis::fsdp | Axis::context, 7 * 6 * 8},
      {CollectiveKind::all_reduce, Axis::fsdp, 21 * 4},
  };
  EXPECT_EQ(engine.collectives(), expected);
  EXPECT_EQ(engine.counters().of(CollectiveKind::all_gather).calls, 1);
  EXPECT_EQ(engine.flops_by_op().at("linear"), 2.0 * 3 * 5 * 7);
  EXPECT_EQ(engine.flops_by_op().size(), 1U);
  engine.reset_records();
  EXPECT_TRUE(engine.collectives().empty());
}

TEST(DryEngine, HoldsTerabytesWithoutTakingThem) {
  DryEngine engine(Mesh({1, 1, 256, 1}), 255);
  const Tensor x = engine.allocate({{1 << 20, 1 << 20}, DType::float32});
  EXPECT_EQ(engine.memory().live_bytes(), std::int64_t{1} << 42);
  EXPECT_FALSE(engine.has_data());
  std::vector<std::byte> untouched{std::byte{7}};
  engine.read(x, untouched);
  EXPECT_EQ(untouched[0], std::byte{7});
}

TEST(DryEngine, BorrowsMemoryThatIsNotThere) {
  std::int64_t allocated = 0;
  DryEngine engine(Mesh({1, 1, 1, 1}), 0, {.on_allocate = [&](std::int64_t bytes) {
                     allocated += bytes;
                     return nullptr;
                   }});
  {
    const Tensor table = engine.borrow({{1 << 20, 1 << 20}, DType::bfloat16}, {}, nullptr);
    EXPECT_EQ(engine.memory().borrowed_bytes(), std::int64_t{2} << 40);
    EXPECT_EQ(engine.memory().live_bytes(), 0);
    const Tensor x = engine.input({{3, 1 << 20}, DType::float32}, {});
    const Tensor y = engine.apply_one(Linear{}, {x, table});
    EXPECT_EQ(y.spec(), (TensorSpec{{3, 1 << 20}, DType::float32}));
    EXPECT_EQ(engine.memory().live_bytes(), allocated);
    EXPECT_EQ(allocated, 2 * 3 * (std::int64_t{4} << 20));
    EXPECT_THROW(engine.write(table, {}), Error);
    EXPECT_THROW(engine.apply_one(Add{.in_place = true}, {table, table}), Error);
  }
  EXPECT_EQ(engine.memory().borrowed_bytes(), 0);
}

TEST(DryEngine, GatheringSharedShardsTakesMemoryOnlyWhereDevicesDoNotShareIt) {
  for (const bool shares : {false, true}) {
    DryEngine engine(Mesh({1, 1, 4, 1}), 0, {.shares_memory = shares});
    const Tensor shard = engine.allocate_shard({{4, 10}, DType::float32}, Axis::context);
    const Tensor whole = engine.apply_one(AllGather{Axis::context, 4}, {shard});
    EXPECT_EQ(whole.shape(), (Shape{4, 1, 10}));
    EXPECT_EQ(engine.memory().live_bytes(), shares ? 40 : 40 + 160);
    EXPECT_EQ(engine.collectives().size(), 1U);
  }
}

TEST(DryEngine, RefusesWhatTheCpuEngineRefuses) {
  DryEngine engine(Mesh({1, 1, 4, 1}), 0);
  const Tensor x = engine.allocate({{4}, DType::float32});
  EXPECT_THROW(engine.apply_one(Add{}, {x, Tensor()}), Error);
  EXPECT_THROW(engine.allocate_shard({{5}, DType::float32}, Axis::context), Error);
  EXPECT_THROW(DryEngine(Mesh({1, 1, 4, 1}), 4), Error);
}

}  // namespace
}  // namespace maxtext
