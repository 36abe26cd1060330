// Collective ops between device threads of one process.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "cpu/device.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"

namespace maxtext::testing {
namespace {

/// Runs `program(engine, group rank)` on `devices` devices along the context axis.
void on_devices(int devices, const std::function<void(CpuEngine&, int)>& program) {
  ThreadTransport transport(Mesh({1, 1, devices, 1}));
  run_devices(
      transport.local_devices(),
      [&](int device) {
        const std::unique_ptr<Communicator> communicator = transport.communicator(device);
        CpuEngine engine({.threads = 1}, *communicator);
        program(engine, device);
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

TEST(Collectives, GatherScatterAndReduce) {
  for (const int devices : {1, 2, 3, 4}) {
    on_devices(devices, [&](CpuEngine& engine, int rank) {
      const auto mine = static_cast<float>(rank + 1);
      const Tensor x = put(engine, {2}, std::vector<float>{mine, -mine});
      const Tensor ids = put(engine, {1}, std::vector<std::int32_t>{rank});
      const std::vector<Tensor> gathered = engine.apply(AllGather{Axis::context, devices}, {x, ids});
      std::vector<float> expected;
      std::vector<std::int32_t> expected_ids;
      double total = 0;
      for (int r = 0; r < devices; ++r) {
        expected.insert(expected.end(), {static_cast<float>(r + 1), static_cast<float>(-r - 1)});
        expected_ids.push_back(r);
        total += r + 1;
      }
      EXPECT_EQ(gathered[0].shape(), (Shape{devices, 2}));
      EXPECT_EQ(get<float>(engine, gathered[0]), expected);
      EXPECT_EQ(get<std::int32_t>(engine, gathered[1]), expected_ids);
      const Tensor parts = engine.apply_one(Scale{static_cast<double>(mine)}, {gathered[0]});
      const Tensor scattered = engine.apply_one(ReduceScatter{Axis::context, devices}, {parts});
      const auto part = static_cast<float>(total * (rank + 1));
      EXPECT_EQ(get<float>(engine, scattered), (std::vector<float>{part, -part}));
      const Tensor sum = put(engine, {1}, std::vector<double>{static_cast<double>(rank + 1)});
      EXPECT_EQ(get<double>(engine, engine.apply_one(AllReduce{Axis::context, devices}, {sum}))[0], total);
      const AllReduce maximum{Axis::context, devices, ReduceOp::max};
      EXPECT_EQ(get<double>(engine, engine.apply_one(maximum, {sum}))[0], devices);
    });
  }
}

TEST(Collectives, ShardsAreGatheredWithoutACopy) {
  on_devices(3, [](CpuEngine& engine, int rank) {
    const Tensor shard = engine.allocate_shard({{6, 2}, DType::float32}, Axis::context);
    EXPECT_EQ(shard.shape(), (Shape{2, 2}));
    const auto mine = static_cast<float>(rank);
    const std::vector<float> values(4, mine);
    engine.write(shard, std::as_bytes(std::span(values)));
    const std::int64_t live = engine.memory().live_bytes();
    const Tensor whole = engine.apply_one(AllGather{Axis::context, 3}, {shard});
    EXPECT_EQ(engine.memory().live_bytes(), live);
    EXPECT_EQ(get<float>(engine, whole), (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
    // A view of a part of the shard is gathered into memory of its own.
    const Tensor half = engine.apply_one(AllGather{Axis::context, 3}, {shard.view(2, {2})});
    EXPECT_EQ(engine.memory().live_bytes(), live + 24);
    EXPECT_EQ(get<float>(engine, half), (std::vector<float>{0, 0, 1, 1, 2, 2}));
    // Nobody may end, and free its part, before all have read.
    const Tensor one = put(engine, {1}, std::vector<float>{1});
    EXPECT_EQ(get<float>(engine, engine.apply_one(AllReduce{Axis::context, 3}, {one}))[0], 3);
  });
}

TEST(Collectives, ViewsOfAPendingResultDoNotWait) {
  on_devices(2, [](CpuEngine& engine, int rank) {
    const Tensor x = put(engine, {4}, std::vector<float>(4, static_cast<float>(rank)));
    const Tensor gathered = engine.apply_one(AllGather{Axis::context, 2}, {x});
    const Tensor flat = engine.apply_one(Reshape{{8}}, {gathered});
    const Tensor tail = engine.apply_one(Slice{.axis = 0, .start = 4, .length = 4}, {flat});
    EXPECT_EQ(get<float>(engine, tail), std::vector<float>(4, 1));
  });
}

TEST(Collectives, ADroppedResultDoesNotHangTheOthers) {
  on_devices(2, [](CpuEngine& engine, int rank) {
    const Tensor x = put(engine, {4}, std::vector<float>(4, static_cast<float>(rank)));
    Tensor gathered = engine.apply_one(AllGather{Axis::context, 2}, {x});
    if (rank == 0) gathered = Tensor();
    if (rank == 1) {
      EXPECT_EQ(get<float>(engine, gathered)[0], 0);
    }
  });
}

}  // namespace
}  // namespace maxtext::testing
