#include "ops/memory_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"

namespace maxtext {
namespace {

TEST(MemoryMeter, KnowsWhatWasLiveAtThePeak) {
  MemoryMeter meter;
  meter.set_kind(MemoryKind::parameters);
  const auto parameters = meter.track(100);
  {
    const MemoryKindScope scope(meter, MemoryKind::gradients);
    const auto gradients = meter.track(50);
    EXPECT_EQ(meter.peak_bytes(), 150);
  }
  EXPECT_EQ(meter.kind(), MemoryKind::parameters);
  EXPECT_EQ(meter.live_bytes(), 100);
  EXPECT_EQ(meter.peak_bytes(), 150);
  EXPECT_EQ(meter.peak_by_kind()[static_cast<std::size_t>(MemoryKind::gradients)], 50);
  EXPECT_EQ(meter.live_by_kind()[static_cast<std::size_t>(MemoryKind::gradients)], 0);
  meter.reset_peak();
  EXPECT_EQ(meter.peak_bytes(), 100);
  EXPECT_THROW(meter.track(-1), Error);
}

TEST(MemoryMeter, BorrowedMemoryIsAFigureOfItsOwn) {
  MemoryMeter meter;
  auto first = meter.track_borrowed(100);
  const auto second = meter.track_borrowed(20);
  EXPECT_EQ(meter.borrowed_bytes(), 120);
  EXPECT_EQ(meter.live_bytes(), 0);
  EXPECT_EQ(meter.peak_bytes(), 0);
  first.reset();
  EXPECT_EQ(meter.borrowed_bytes(), 20);
  EXPECT_THAT([&] { meter.track_borrowed(-1); },
              ::testing::ThrowsMessage<Error>("memory meter: cannot track -1 bytes"));
}

TEST(MemoryMeter, TokensOutliveItAndCrossThreads) {
  std::shared_ptr<void> late;
  {
    MemoryMeter meter;
    late = meter.track(7);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&meter] {
        for (int k = 0; k < 1000; ++k) const auto token = meter.track(3);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(meter.live_bytes(), 7);
  }
  late.reset();
}

}  // namespace
}  // namespace maxtext
