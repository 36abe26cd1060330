// Results of collectives between threads, against results computed without any transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>

#include "mesh/collective_cases.h"
#include "mesh/delayed_communicator.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"

namespace maxtext {
namespace {

using testing::all_axis_sets;
using testing::all_cases;
using testing::Bytes;
using testing::CaseRun;
using testing::CollectiveCase;

using Program = std::function<void(Communicator&)>;

void run_on(const Mesh& mesh, const Program& program, const DelayOptions& delay = {}) {
  ThreadTransport transport(mesh);
  run_devices(
      transport.local_devices(),
      [&](int device) {
        std::unique_ptr<Communicator> communicator = transport.communicator(device);
        if (delay.delay.count() > 0) communicator = delayed_communicator(std::move(communicator), delay);
        program(*communicator);
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

void expect_right(const CaseRun& run, const Mesh& mesh) {
  const std::string mismatch = run.mismatch(mesh);
  if (!mismatch.empty()) fail("{}", mismatch);
}

void run_case(Communicator& communicator, const CollectiveCase& c) {
  CaseRun run(communicator, c);
  run.start(communicator);
  run.wait();
  run.spoil_sends();  // without a keepalive the send memory is free after wait
  expect_right(run, communicator.mesh());
}

class GroupSize : public ::testing::TestWithParam<int> {};

TEST_P(GroupSize, EveryKindElementAndOperation) {
  const Mesh mesh({1, 1, GetParam(), 1});
  run_on(mesh, [](Communicator& communicator) {
    for (const std::int64_t count : {0, 1, 7, 1023, 1025, 5001}) {
      for (const CollectiveCase& c : all_cases(Axis::context, {count})) run_case(communicator, c);
    }
  });
}

TEST_P(GroupSize, SeveralBuffersOfOneCollective) {
  const Mesh mesh({1, GetParam(), 1, 1});
  run_on(mesh, [](Communicator& communicator) {
    for (const CollectiveCase& c : all_cases(Axis::fsdp, {3, 0, 4099, 1, 12289})) run_case(communicator, c);
  });
}

TEST_P(GroupSize, AllReduceInPlace) {
  const Mesh mesh({GetParam(), 1, 1, 1});
  run_on(mesh, [](Communicator& communicator) {
    for (const std::int64_t count : {1, 33, 20011}) {
      CaseRun run(communicator, {CollectiveKind::all_reduce, Axis::data, ElementType::float32, ReduceOp::sum, {count}},
                  true);
      run.start(communicator);
      run.wait();
      expect_right(run, communicator.mesh());
    }
  });
}

TEST_P(GroupSize, BarrierWaitsForAll) {
  const Mesh mesh({1, 1, 1, GetParam()});
  std::atomic<int> arrived{0};
  run_on(mesh, [&](Communicator& communicator) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      communicator.start({.axes = Axis::tensor, .label = "round"})->wait();
      if (arrived < round * GetParam()) fail("a device passed barrier {} early", round);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupSize, ::testing::Values(1, 2, 3, 4, 8));

TEST(ThreadCollectives, EverySubsetOfAxes) {
  const Mesh mesh({2, 1, 2, 2});
  run_on(mesh, [](Communicator& communicator) {
    for (const AxisSet axes : all_axis_sets()) {
      for (const CollectiveCase& c : all_cases(axes, {5, 130})) run_case(communicator, c);
    }
  });
}

TEST(ThreadCollectives, ManyInFlightOnSeveralAxesWaitedForInAnyOrder) {
  const Mesh mesh({2, 1, 2, 2});
  run_on(mesh, [](Communicator& communicator) {
    std::vector<std::unique_ptr<CaseRun>> runs;
    for (const AxisSet axes : all_axis_sets()) {
      for (const CollectiveCase& c : all_cases(axes, {17, 2})) {
        runs.push_back(std::make_unique<CaseRun>(communicator, c));
        runs.back()->start(communicator);
      }
    }
    // Half of the devices wait backwards: nothing may depend on the order of waits.
    if (communicator.device() % 2 == 1) std::reverse(runs.begin(), runs.end());
    for (const auto& run : runs) {
      run->wait();
      run->spoil_sends();
      expect_right(*run, communicator.mesh());
    }
  });
}

TEST(ThreadCollectives, RandomDelaysDoNotChangeResults) {
  const Mesh mesh({1, 2, 2, 1});
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    run_on(mesh,
           [](Communicator& communicator) {
             for (int round = 0; round < 5; ++round) {
               for (const CollectiveCase& c : all_cases(Axis::fsdp | Axis::context, {33})) run_case(communicator, c);
             }
           },
           {.delay = std::chrono::milliseconds(1), .random = true, .seed = seed});
  }
}

TEST(ThreadCollectives, UnwaitedHandleCompletesWhenDestroyed) {
  const Mesh mesh({1, 1, 4, 1});
  run_on(mesh, [](Communicator& communicator) {
    const CollectiveCase c{CollectiveKind::all_reduce, Axis::context, ElementType::float64, ReduceOp::sum, {9}};
    std::vector<double> values(9, communicator.device() + 1.0);
    auto* memory = reinterpret_cast<std::byte*>(values.data());
    communicator.start({c.kind, c.axes, c.element, c.reduce, {{memory, memory, 9}}, {}, "dropped"}).reset();
    if (values != std::vector<double>(9, 10.0)) fail("the collective was not completed");
  });
}

TEST(ThreadCollectives, NanWinsMaximum) {
  const Mesh mesh({1, 1, 3, 1});
  run_on(mesh, [](Communicator& communicator) {
    std::vector<float> values(3, 1.0F);
    values[static_cast<std::size_t>(communicator.device())] = std::numeric_limits<float>::quiet_NaN();
    auto* memory = reinterpret_cast<std::byte*>(values.data());
    communicator
        .start({CollectiveKind::all_reduce,
                Axis::context,
                ElementType::float32,
                ReduceOp::max,
                {{memory, memory, 3}},
                {},
                "flag"})
        ->wait();
    for (const float value : values) {
      if (!std::isnan(value)) fail("a NaN was lost");
    }
  });
}

TEST(ThreadCollectives, WaitingTwiceIsAllowed) {
  const Mesh mesh({1, 1, 2, 1});
  run_on(mesh, [](Communicator& communicator) {
    CaseRun run(communicator, {CollectiveKind::all_gather, Axis::context, ElementType::bytes, ReduceOp::sum, {5}});
    run.start(communicator);
    run.wait();
    run.wait();
    expect_right(run, communicator.mesh());
  });
}

TEST(ThreadCollectives, GatherInSharedMemoryMovesNothing) {
  const Mesh mesh({1, 2, 4, 1});
  run_on(mesh, [](Communicator& communicator) {
    const int rank = communicator.mesh().group_rank(communicator.device(), Axis::context);
    ASSERT_TRUE(communicator.shares_memory());
    for (int round = 0; round < 10; ++round) {
      const GroupMemory memory = communicator.allocate_shared(Axis::context, 24);
      ASSERT_EQ(memory.mine, memory.base.get() + rank * 24);
      const Bytes mine = testing::make_send(communicator.device(), 0, ElementType::float64, 3);
      std::copy(mine.begin(), mine.end(), memory.mine);
      communicator
          .start({CollectiveKind::all_gather,
                  Axis::context,
                  ElementType::float64,
                  ReduceOp::sum,
                  {{memory.mine, memory.base.get(), 3}},
                  {memory.base},
                  "view"})
          ->wait();
      const Bytes gathered(memory.base.get(), memory.base.get() + 96);
      const CollectiveCase c{CollectiveKind::all_gather, Axis::context, ElementType::float64, ReduceOp::sum, {3}};
      EXPECT_EQ(gathered, testing::expected_result(communicator.mesh(), communicator.device(), c, 0));
    }
  });
}

TEST(ThreadCollectives, KeepaliveLastsUntilAllHaveReadAndNoLonger) {
  const Mesh mesh({1, 1, 2, 1});
  ThreadTransport transport(mesh);
  const std::unique_ptr<Communicator> first = transport.communicator(0);
  const std::unique_ptr<Communicator> second = transport.communicator(1);
  const CollectiveCase c{CollectiveKind::all_gather, Axis::context, ElementType::float32, ReduceOp::sum, {8}};
  CaseRun a(*first, c);
  CaseRun b(*second, c);
  auto token_a = std::make_shared<int>(0);
  auto token_b = std::make_shared<int>(0);
  const std::weak_ptr<int> kept_a = token_a;
  const std::weak_ptr<int> kept_b = token_b;
  a.start(*first, {std::move(token_a)});
  b.start(*second, {std::move(token_b)});
  a.wait();  // one thread is enough: with a keepalive, nobody waits for readers
  EXPECT_EQ(a.mismatch(mesh), "");
  EXPECT_FALSE(kept_a.expired()) << "device 1 has not read it yet";
  b.wait();
  EXPECT_EQ(b.mismatch(mesh), "");
  EXPECT_TRUE(kept_a.expired());
  EXPECT_TRUE(kept_b.expired());
}

TEST(ThreadCollectives, WithoutKeepaliveAllHaveReadAfterWait) {
  const Mesh mesh({1, 1, 2, 1});
  ThreadTransport transport(mesh);
  const std::unique_ptr<Communicator> first = transport.communicator(0);
  const std::unique_ptr<Communicator> second = transport.communicator(1);
  const CollectiveCase c{CollectiveKind::reduce_scatter, Axis::context, ElementType::float32, ReduceOp::sum, {8}};
  CaseRun a(*first, c);
  CaseRun b(*second, c);
  a.start(*first);
  b.start(*second);
  a.wait();
  a.spoil_sends();
  b.wait();
  EXPECT_EQ(a.mismatch(mesh), "");
  EXPECT_EQ(b.mismatch(mesh), "");
}

TEST(ThreadCollectives, CountersAreLogicalBytes) {
  const Mesh mesh({1, 1, 4, 1});
  run_on(mesh, [](Communicator& communicator) {
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
      run_case(communicator, {kind, Axis::context, ElementType::float32, ReduceOp::sum, {10, 5}});
    }
    communicator.start({.axes = Axis::context})->wait();
    const CollectiveCounters& counters = communicator.counters();
    EXPECT_EQ(counters.of(CollectiveKind::all_gather).bytes, 3 * 15 * 4);
    EXPECT_EQ(counters.of(CollectiveKind::reduce_scatter).bytes, 3 * 15 * 4);
    EXPECT_EQ(counters.of(CollectiveKind::all_reduce).bytes, 23 * 4);  // 2·3/4·15 = 22.5
    EXPECT_EQ(counters.of(CollectiveKind::barrier).bytes, 0);
    for (const CollectiveCounters::Entry& entry : counters.by_kind) EXPECT_EQ(entry.calls, 1);
  });
}

TEST(ThreadCollectives, GroupOfOneMovesNoBytes) {
  const Mesh mesh({1, 1, 2, 1});
  run_on(mesh, [](Communicator& communicator) {
    run_case(communicator, {CollectiveKind::all_reduce, Axis::data, ElementType::float32, ReduceOp::sum, {10}});
    EXPECT_EQ(communicator.counters().of(CollectiveKind::all_reduce).calls, 1);
    EXPECT_EQ(communicator.counters().of(CollectiveKind::all_reduce).bytes, 0);
  });
}

}  // namespace
}  // namespace maxtext
