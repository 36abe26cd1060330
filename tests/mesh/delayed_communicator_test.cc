#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "mesh/collective_cases.h"
#include "mesh/delayed_communicator.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"

namespace maxtext {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::CaseRun;
using testing::CollectiveCase;

const CollectiveCase kGather{CollectiveKind::all_gather, Axis::context, ElementType::float32, ReduceOp::sum, {6}};

/// Runs `program` on two devices with delays.
template <typename Program>
void run_delayed(const DelayOptions& options, const Program& program) {
  ThreadTransport transport(Mesh({1, 1, 2, 1}));
  run_devices(
      transport.local_devices(),
      [&](int device) { program(*delayed_communicator(transport.communicator(device), options)); },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

TEST(DelayedCommunicator, CompletesLateAndRight) {
  run_delayed({.delay = milliseconds(30)}, [](Communicator& communicator) {
    CaseRun run(communicator, kGather);
    const auto start = steady_clock::now();
    run.start(communicator);
    EXPECT_LT(steady_clock::now() - start, milliseconds(25)) << "starting must not block";
    run.wait();
    EXPECT_GE(steady_clock::now() - start, milliseconds(30));
    EXPECT_EQ(run.mismatch(communicator.mesh()), "");
  });
}

TEST(DelayedCommunicator, CollectivesInFlightAreLateTogether) {
  run_delayed({.delay = milliseconds(40)}, [](Communicator& communicator) {
    const auto start = steady_clock::now();
    std::vector<CaseRun> runs;
    for (int i = 0; i < 5; ++i) runs.emplace_back(communicator, kGather);
    for (CaseRun& run : runs) run.start(communicator);
    for (CaseRun& run : runs) run.wait();
    EXPECT_GE(steady_clock::now() - start, milliseconds(40));
    EXPECT_LT(steady_clock::now() - start, milliseconds(5 * 40)) << "delays must overlap";
  });
}

TEST(DelayedCommunicator, WorkBetweenStartAndWaitHidesTheDelay) {
  run_delayed({.delay = milliseconds(20)}, [](Communicator& communicator) {
    CaseRun run(communicator, kGather);
    run.start(communicator);
    std::this_thread::sleep_for(milliseconds(60));
    const auto start = steady_clock::now();
    run.wait();
    EXPECT_LT(steady_clock::now() - start, milliseconds(20));
  });
}

TEST(DelayedCommunicator, GroupOfOneIsNotDelayed) {
  run_delayed({.delay = milliseconds(200)}, [](Communicator& communicator) {
    const auto start = steady_clock::now();
    communicator.start({.axes = Axis::data})->wait();
    EXPECT_LT(steady_clock::now() - start, milliseconds(100));
  });
}

TEST(DelayedCommunicator, PassesCountersAndSharedMemoryThrough) {
  run_delayed({.delay = milliseconds(1)}, [](Communicator& communicator) {
    CaseRun run(communicator, kGather);
    run.start(communicator);
    run.wait();
    EXPECT_EQ(communicator.counters().of(CollectiveKind::all_gather).bytes, 24);
    EXPECT_TRUE(communicator.shares_memory());
    const GroupMemory memory = communicator.allocate_shared(Axis::context, 16);
    EXPECT_EQ(memory.mine - memory.base.get(), 16 * communicator.device());
  });
}

TEST(DelayedCommunicator, NegativeDelayIsAnError) {
  ThreadTransport transport(Mesh({1, 1, 1, 1}));
  EXPECT_THROW(delayed_communicator(transport.communicator(0), {.delay = milliseconds(-1)}), Error);
}

}  // namespace
}  // namespace maxtext
