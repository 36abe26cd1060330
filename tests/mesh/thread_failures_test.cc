// What devices see when one of them fails, never comes, or asks for nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "mesh/collective_cases.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"

namespace maxtext {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

CollectiveRequest barrier(AxisSet axes, std::string label = "") {
  return {.kind = CollectiveKind::barrier, .axes = axes, .label = std::move(label)};
}

template <typename Exception>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(ThreadFailures, AbortEndsCurrentAndFutureWaitsOfAllDevices) {
  ThreadTransport transport(Mesh({1, 1, 4, 1}));
  const auto start = steady_clock::now();
  const auto program = [&](int device) {
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    if (device == 2) {
      std::this_thread::sleep_for(milliseconds(50));
      communicator->abort("disk full");
    } else {
      const auto pending = communicator->start(barrier(Axis::context));
      EXPECT_EQ(message_of<PeerFailure>([&] { pending->wait(); }), "device 2 failed: disk full");
      EXPECT_EQ(message_of<PeerFailure>([&] { pending->wait(); }), "device 2 failed: disk full");
    }
    EXPECT_EQ(message_of<PeerFailure>([&] { communicator->start(barrier(Axis::context))->wait(); }),
              "device 2 failed: disk full");
    EXPECT_EQ(message_of<PeerFailure>([&] { communicator->start(barrier(Axis::data))->wait(); }),
              "device 2 failed: disk full");
  };
  run_devices(transport.local_devices(), program, [](int, const std::string&) {});
  EXPECT_LT(steady_clock::now() - start, milliseconds(1050));
}

TEST(ThreadFailures, WatchdogNamesDeviceCollectiveAndWhoIsMissing) {
  ThreadTransport transport(Mesh({1, 1, 4, 1}), {.timeout = milliseconds(50)});
  const auto start = steady_clock::now();
  int watchdogs = 0;
  std::mutex mutex;
  const auto program = [&](int device) {
    if (device == 1 || device == 3) return;
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    try {
      communicator->start(barrier(Axis::context, "keys of layer 3"))->wait();
      ADD_FAILURE() << "device " << device << " did not notice";
    } catch (const PeerFailure& error) {
      EXPECT_THAT(error.what(), HasSubstr("failed: barrier over context (keys of layer 3)"));
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      ++watchdogs;
      EXPECT_EQ(error.what(), fmt::format("device {}: barrier over context (keys of layer 3) waited 50 ms for "
                                          "devices 1, 3",
                                          device));
    }
  };
  run_devices(transport.local_devices(), program, [](int, const std::string&) {});
  EXPECT_EQ(watchdogs, 1);
  EXPECT_GE(steady_clock::now() - start, milliseconds(50));
  EXPECT_LT(steady_clock::now() - start, milliseconds(1050));
}

TEST(ThreadFailures, DifferentCollectivesOfOneGroupAreAnError) {
  ThreadTransport transport(Mesh({1, 1, 2, 1}));
  std::vector<float> memory(8);
  const auto program = [&](int device) {
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    auto* bytes = reinterpret_cast<std::byte*>(memory.data() + 4 * device);
    communicator
        ->start({CollectiveKind::all_reduce,
                 Axis::context,
                 ElementType::float32,
                 ReduceOp::sum,
                 {{bytes, bytes, device + 1}},
                 {},
                 "norm"})
        ->wait();
  };
  const auto run = [&] {
    run_devices(transport.local_devices(), program,
                [&](int device, const std::string& reason) { transport.abort(device, reason); });
  };
  EXPECT_THAT(message_of<Error>(run), HasSubstr("started all_reduce over context (norm) with ["));
}

TEST(ThreadFailures, SharedMemoryOfDifferentSizesIsAnError) {
  ThreadTransport transport(Mesh({1, 1, 2, 1}));
  const auto first = transport.communicator(0);
  const auto second = transport.communicator(1);
  first->allocate_shared(Axis::context, 64);
  EXPECT_THAT(message_of<Error>([&] { second->allocate_shared(Axis::context, 65); }), HasSubstr("65 bytes"));
}

TEST(ThreadFailures, RequestsThatCannotBeRight) {
  ThreadTransport transport(Mesh({1, 1, 2, 1}));
  const auto communicator = transport.communicator(1);
  std::vector<std::byte> m(64);
  std::byte* p = m.data();
  const auto error_of = [&](CollectiveKind kind, ElementType element, CollectiveBuffer buffer) {
    return message_of<Error>([&] {
      communicator->start({kind, Axis::context, element, ReduceOp::sum, {buffer}, {}, "x"});
    });
  };
  EXPECT_THAT(error_of(CollectiveKind::all_reduce, ElementType::bytes, {p, p, 1}),
              HasSubstr("bytes cannot be reduced"));
  EXPECT_THAT(error_of(CollectiveKind::all_gather, ElementType::bytes, {p, p + 8, -1}), HasSubstr("count -1"));
  EXPECT_THAT(error_of(CollectiveKind::all_gather, ElementType::bytes, {nullptr, p, 1}),
              HasSubstr("no memory to send"));
  EXPECT_THAT(error_of(CollectiveKind::all_gather, ElementType::bytes, {p, nullptr, 1}), HasSubstr("to receive"));
  // Rank 1 of 2 may send from the second half of what it receives, from nowhere else in it.
  EXPECT_THAT(error_of(CollectiveKind::all_gather, ElementType::bytes, {p, p, 8}), HasSubstr("overlap"));
  EXPECT_THAT(error_of(CollectiveKind::reduce_scatter, ElementType::float32, {p, p + 8, 2}), HasSubstr("overlap"));
  EXPECT_THAT(error_of(CollectiveKind::all_reduce, ElementType::float32, {p, p + 4, 2}), HasSubstr("overlap"));
  EXPECT_THAT(message_of<Error>([&] { transport.communicator(2); }), HasSubstr("device 2"));
}

TEST(RunDevices, RethrowsTheCauseWithItsTypeNotItsConsequences) {
  ThreadTransport transport(Mesh({1, 1, 4, 1}));
  const auto start = steady_clock::now();
  const auto program = [&](int device) {
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    for (int step = 0; step < 100; ++step) {
      const auto pending = communicator->start(barrier(Axis::context));
      // Thrown with a collective under way, which the others would otherwise wait for.
      if (device == 1 && step == 7) fail_config("steps is wrong");
      pending->wait();
    }
  };
  const auto run = [&] {
    run_devices(transport.local_devices(), program,
                [&](int device, const std::string& reason) { transport.abort(device, reason); });
  };
  EXPECT_EQ(message_of<ConfigError>(run), "steps is wrong");
  EXPECT_LT(steady_clock::now() - start, milliseconds(1000));
}

TEST(RunDevices, ReportsAPeerFailureWhenNothingElseIsKnown) {
  const auto program = [](int device) {
    if (device == 1) throw PeerFailure("device 0 failed: far away");
  };
  int aborts = 0;
  EXPECT_EQ(message_of<PeerFailure>([&] {
              run_devices({0, 1}, program, [&](int, const std::string&) { ++aborts; });
            }),
            "device 0 failed: far away");
  EXPECT_EQ(aborts, 0);
}

TEST(RunDevices, MemoryMayBeFreedByTheDeviceThatFails) {
  // Device 0 fails while others may be reading its memory; the address sanitizer sees reads after the free.
  for (int round = 0; round < 20; ++round) {
    ThreadTransport transport(Mesh({1, 1, 3, 1}));
    const auto program = [&](int device) {
      const std::unique_ptr<Communicator> communicator = transport.communicator(device);
      std::vector<std::byte> send(std::size_t{1} << 18U);
      std::vector<std::byte> receive(3 * send.size());
      const auto pending = communicator->start({CollectiveKind::all_gather,
                                                Axis::context,
                                                ElementType::bytes,
                                                ReduceOp::sum,
                                                {{send.data(), receive.data(), static_cast<std::int64_t>(send.size())}},
                                                {},
                                                "big"});
      if (device == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        fail("gone");
      }
      pending->wait();
    };
    const auto run = [&] {
      run_devices(transport.local_devices(), program,
                  [&](int device, const std::string& reason) { transport.abort(device, reason); });
    };
    EXPECT_EQ(message_of<Error>(run), "gone");
  }
}

}  // namespace
}  // namespace maxtext
