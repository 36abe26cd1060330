#include "engines/cpu/attention_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/attention_case.h"

namespace maxtext {
namespace {

using testing::AttentionProblem;
using testing::AttentionResult;
using testing::DeviceResult;
using testing::RunOptions;

/// |actual − expected| <= tolerance · max(1, max |expected|), the yardstick of the golden files: gradients of a softmax
/// over one key are 0, and what is left of them is rounding of terms near 1. Infinities must be equal.
template <typename T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 1;
  for (const double value : expected) largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = static_cast<double>(actual[i]);
    if (value == expected[i]) continue;
    const double difference = std::abs(value - expected[i]);
    if (difference <= worst) continue;
    worst = difference;
    where = i;
    if (std::isnan(difference)) break;
  }
  EXPECT_LE(worst, tolerance * largest) << what << " element " << where << ": " << actual[where] << ", expected "
                                        << expected[where];
}

template <typename T>
void expect_close(const DeviceResult<T>& actual, const AttentionResult& expected, double tolerance,
                  const std::string& what) {
  expect_near(actual.o, expected.o, tolerance, what + " o");
  expect_near(actual.logsumexp, expected.logsumexp, tolerance, what + " logsumexp");
  expect_near(actual.dq, expected.dq, tolerance, what + " dq");
  expect_near(actual.dk, expected.dk, tolerance, what + " dk");
  expect_near(actual.dv, expected.dv, tolerance, what + " dv");
}

/// Every instruction set of the host against the definition, in both precisions.
void expect_exact(const AttentionProblem& x, const std::string& what, const testing::TokenOrder& order,
                  std::int64_t heads_per_call = 0) {
  const AttentionResult expected = testing::brute_force(x);
  for (const InstructionSet set : available_instruction_sets()) {
    const RunOptions options{order, {2, set}, heads_per_call};
    const std::string name = what + " " + std::string(instruction_set_name(set));
    expect_close(testing::run_on_devices<float>(x, options), expected, 1e-5, name + " fp32");
    expect_close(testing::run_on_devices<double>(x, options), expected, 1e-12, name + " fp64");
  }
}

template <typename T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(T)), 0) << what << " element " << i << ": " << a[i] << ", " << b[i];
  }
}

TEST(AttentionKernel, EveryLengthUpTo70) {
  for (std::int64_t length = 1; length <= 70; ++length) {
    AttentionProblem x = testing::random_problem(1, length, 2, 1, 8, static_cast<std::uint32_t>(length));
    testing::see_causally(x);
    expect_exact(x, "causal length " + std::to_string(length), testing::one_device(length));
  }
}

TEST(AttentionKernel, EveryGroupSize) {
  for (const std::int64_t group : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17}) {
    AttentionProblem x = testing::random_problem(2, 75, 2 * group, 2, 16, static_cast<std::uint32_t>(group));
    testing::see_documents(x, {1, 30, 0, 17, 1, 20}, 0);
    expect_exact(x, "group " + std::to_string(group), testing::one_device(75));
  }
}

TEST(AttentionKernel, EveryHeadDimension) {
  for (const std::int64_t head_dim : {1, 3, 8, 16, 20, 32, 64, 80, 96, 128, 256}) {
    AttentionProblem x = testing::random_problem(1, 90, 4, 2, head_dim, static_cast<std::uint32_t>(head_dim));
    testing::see_causally(x);
    expect_exact(x, "head_dim " + std::to_string(head_dim), testing::one_device(90));
  }
}

TEST(AttentionKernel, WindowsAndLongRows) {
  for (const std::int64_t window : {0, 1, 3, 255, 256, 257, 2000}) {
    AttentionProblem x = testing::random_problem(1, 700, 2, 1, 16, static_cast<std::uint32_t>(window));
    testing::see_causally(x, window);
    expect_exact(x, "window " + std::to_string(window), testing::one_device(700));
  }
  AttentionProblem x = testing::random_problem(1, 1100, 2, 1, 16, 5);
  testing::see_documents(x, {1, 1, 300, 254, 1, 257, 40}, 100);
  expect_exact(x, "packed", testing::one_device(1100));
}

TEST(AttentionKernel, ArbitraryIntervalsOnManyDevicesAndHeadGroups) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    const std::int64_t devices = 1 + seed % 4;
    const std::int64_t length = devices * (17 + 23 * (seed % 7));
    AttentionProblem x = testing::random_problem(1 + seed % 2, length, 6, 3, 20, seed);
    testing::see_randomly(x, seed);
    expect_exact(x, "random " + std::to_string(seed), testing::shuffled_order(length, devices, seed),
                 1 + seed % 3 / 2 * 2);
  }
}

TEST(AttentionKernel, LargeScoresStayExact) {
  AttentionProblem x = testing::random_problem(1, 300, 2, 1, 16, 9);
  testing::see_causally(x);
  x.scale = 8;  // scores of hundreds: most probabilities underflow, the maximum moves a lot
  const AttentionResult expected = testing::brute_force(x);
  for (const InstructionSet set : available_instruction_sets()) {
    expect_close(testing::run_on_devices<double>(x, {testing::one_device(300), {1, set}, 0}), expected, 1e-11,
                 "large scores");
  }
}

/// Caps far above the scores, among them, and so far below that nearly all are cut.
TEST(AttentionKernel, SoftCaps) {
  for (const double cap : {50.0, 4.0, 0.5}) {
    for (const double scale : {0.25, 3.0}) {
      for (const std::int64_t head_dim : {16, 20}) {
        AttentionProblem x = testing::random_problem(1, 330, 6, 2, head_dim, static_cast<std::uint32_t>(cap * 10));
        testing::see_documents(x, {1, 300, 20}, 100);
        x.scale = scale;
        x.softcap = cap;
        expect_exact(x, "softcap " + std::to_string(cap) + " scale " + std::to_string(scale),
                     testing::shuffled_order(330, 3, 7), 1);
      }
    }
  }
}

TEST(AttentionKernel, AHugeSoftCapIsNone) {
  AttentionProblem x = testing::random_problem(1, 90, 2, 1, 16, 3);
  testing::see_causally(x);
  const AttentionResult expected = testing::brute_force(x);
  x.softcap = 1e6;
  for (const InstructionSet set : available_instruction_sets()) {
    expect_close(testing::run_on_devices<double>(x, {testing::one_device(90), {1, set}, 0}), expected, 1e-10, "huge");
  }
}

TEST(AttentionKernel, RefusesANegativeSoftCap) {
  AttentionProblem x = testing::random_problem(1, 3, 1, 1, 16, 3);
  testing::see_causally(x);
  x.softcap = -1;
  EXPECT_THROW(testing::run_on_devices<float>(x, {testing::one_device(3), {}, 0}), Error);
}

/// Rows have the bits of one device, whatever the split and the number of threads.
TEST(AttentionKernel, ForwardIsBitwiseThatOfOneDevice) {
  const std::int64_t length = 816;  // divisible by 3, 8 and 16
  std::vector<AttentionProblem> problems;
  for (const std::int64_t window : {0, 1, 40, 300}) {
    problems.push_back(testing::random_problem(1, length, 4, 2, 20, static_cast<std::uint32_t>(window)));
    testing::see_causally(problems.back(), window);
  }
  problems.push_back(testing::random_problem(1, length, 3, 1, 16, 77));
  testing::see_documents(problems.back(), {1, 255, 2, 300, 100, 50}, 0);
  problems.push_back(testing::random_problem(1, length, 3, 1, 16, 78));
  testing::see_randomly(problems.back(), 78);
  problems.push_back(problems[0]);
  problems.back().scale = 20;  // factors and probabilities underflow to 0
  problems.push_back(problems[2]);
  problems.back().softcap = 2;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const AttentionProblem& x = problems[i];
    for (const InstructionSet set : available_instruction_sets()) {
      const DeviceResult<float> one =
          testing::run_on_devices<float>(x, {testing::one_device(length), {1, set}, 0, false});
      const auto compare = [&](const testing::TokenOrder& order, const std::string& name) {
        for (const int threads : {1, 3}) {
          const DeviceResult<float> other = testing::run_on_devices<float>(x, {order, {threads, set}, 1, false});
          const std::string what = name + ", problem " + std::to_string(i) + ", " + std::to_string(threads) +
                                   " threads, " + std::string(instruction_set_name(set));
          expect_same_bits(one.o, other.o, what + " o");
          expect_same_bits(one.logsumexp, other.logsumexp, what + " logsumexp");
        }
      };
      compare(testing::one_device(length), "one device");
      compare(testing::deal_chunks(length, 2, {0, 1, 1, 0}), "dual chunk, 2");
      compare(testing::deal_chunks(length, 3, {0, 1, 2, 2, 1, 0}), "dual chunk, 3");
      compare(testing::deal_chunks(length, 4, {0, 1, 2, 3}), "contiguous, 4");
      compare(testing::deal_chunks(length, 4, {3, 0, 0, 1, 2, 1, 3, 2}), "balanced, 4");
      std::vector<int> striped(static_cast<std::size_t>(length));
      for (std::size_t token = 0; token < striped.size(); ++token) striped[token] = static_cast<int>(token % 8);
      compare(testing::deal_chunks(length, 8, striped), "striped, 8");
      compare(testing::shuffled_order(length, 2, 3), "shuffled, 2");
    }
  }
}

TEST(AttentionKernel, BackwardIsBitwiseReproducibleForAnyTeam) {
  AttentionProblem x = testing::random_problem(2, 1100, 4, 2, 24, 4);
  testing::see_documents(x, {600, 1, 450}, 0);
  const auto order = testing::one_device(x.length);
  for (const InstructionSet set : available_instruction_sets()) {
    const DeviceResult<float> one = testing::run_on_devices<float>(x, {order, {1, set}, 0});
    for (const int threads : {1, 2, 7}) {
      const DeviceResult<float> other = testing::run_on_devices<float>(x, {order, {threads, set}, 0});
      expect_same_bits(one.dq, other.dq, "dq");
      expect_same_bits(one.dk, other.dk, "dk");
      expect_same_bits(one.dv, other.dv, "dv");
    }
  }
}

/// Padding between and after documents holds NaN and infinities in q, k, v, o and do; nothing changes by a bit.
TEST(AttentionKernel, UnseenKeysAndRowsWithoutKeysMayHoldNaN) {
  const std::int64_t length = 340;
  AttentionProblem clean = testing::random_problem(1, length, 4, 2, 20, 11);
  testing::see_documents(clean, {100, 3, 180}, 0);
  for (std::size_t i = 100; i < 103; ++i) clean.key_begin[i] = clean.key_end[i] = 0;
  AttentionProblem dirty = clean;
  const double bad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  for (std::int64_t i = 0; i < length; ++i) {
    if (clean.key_begin[static_cast<std::size_t>(i)] < clean.key_end[static_cast<std::size_t>(i)]) continue;
    const auto poison = [&](std::vector<double>& values, std::int64_t width) {
      for (std::int64_t d = 0; d < width; ++d) values[static_cast<std::size_t>(i * width + d)] = bad[d % 2];
    };
    poison(dirty.q, 4 * 20);
    poison(dirty.d_o, 4 * 20);
    poison(dirty.k, 2 * 20);
    poison(dirty.v, 2 * 20);
  }
  for (const InstructionSet set : available_instruction_sets()) {
    for (const testing::TokenOrder& order : {testing::one_device(length), testing::shuffled_order(length, 2, 1)}) {
      const RunOptions options{order, {2, set}, 0};
      const DeviceResult<float> a = testing::run_on_devices<float>(clean, options);
      const DeviceResult<float> b = testing::run_on_devices<float>(dirty, options);
      expect_same_bits(a.o, b.o, "o");
      expect_same_bits(a.logsumexp, b.logsumexp, "logsumexp");
      expect_same_bits(a.dq, b.dq, "dq");
      expect_same_bits(a.dk, b.dk, "dk");
      expect_same_bits(a.dv, b.dv, "dv");
      EXPECT_EQ(a.o[101 * 80], 0.0F);
      EXPECT_EQ(a.logsumexp[101], -std::numeric_limits<float>::infinity());
      EXPECT_EQ(a.dq[101 * 80], 0.0F);
      EXPECT_EQ(a.dk[101 * 40], 0.0F);
    }
  }
}

/// A NaN that a query does see must come out, or the non-finite check of training would miss it.
TEST(AttentionKernel, SeenNaNIsNotHidden) {
  AttentionProblem x = testing::random_problem(1, 300, 1, 1, 16, 1);
  testing::see_causally(x);
  x.q[280 * 16] = std::numeric_limits<double>::quiet_NaN();
  for (const InstructionSet set : available_instruction_sets()) {
    const DeviceResult<float> result = testing::run_on_devices<float>(x, {testing::one_device(300), {1, set}, 0});
    EXPECT_TRUE(std::isnan(result.o[280 * 16]));
    EXPECT_TRUE(std::isnan(result.logsumexp[280]));
    EXPECT_FALSE(std::isnan(result.o[279 * 16]));
    EXPECT_FALSE(std::isnan(result.o[281 * 16]));
  }
}

TEST(AttentionKernel, AllocatesOnlyInTheFirstCall) {
  const AttentionShape shape{1, 64, 4, 16, 1, 64, 2, 2, 0, 0.25};
  std::vector<float> q(64 * 4 * 16, 0.5F), k(64 * 2 * 16, 0.5F), o(q.size()), logsumexp(4 * 64);
  std::vector<std::int32_t> slots(64), begin(64, 0), end(64);
  for (std::int32_t i = 0; i < 64; ++i) {
    slots[static_cast<std::size_t>(i)] = i;
    end[static_cast<std::size_t>(i)] = i + 1;
  }
  Workspace workspace;
  const auto both = [&] {
    std::vector<float> dq(q.size()), dk(k.size()), dv(k.size());
    attention_forward(shape, q.data(), k.data(), k.data(), slots.data(), begin.data(), end.data(), o.data(),
                      logsumexp.data(), workspace);
    attention_backward(shape, q.data(), k.data(), k.data(), slots.data(), begin.data(), end.data(), o.data(),
                       logsumexp.data(), q.data(), dq.data(), dk.data(), dv.data(), workspace);
  };
  both();
  const std::int64_t allocations = workspace.allocations();
  both();
  both();
  EXPECT_EQ(workspace.allocations(), allocations);
  EXPECT_EQ(workspace.bytes_in_use(), 0);
}

TEST(AttentionKernel, RefusesIndicesOutsideTheKeys) {
  const AttentionShape shape{1, 2, 1, 16, 1, 2, 1, 1, 0, 1};
  std::vector<float> x(32), o(32), logsumexp(2);
  Workspace workspace;
  const auto run = [&](std::vector<std::int32_t> slots, std::vector<std::int32_t> begin,
                       std::vector<std::int32_t> end) {
    attention_forward(shape, x.data(), x.data(), x.data(), slots.data(), begin.data(), end.data(), o.data(),
                      logsumexp.data(), workspace);
  };
  EXPECT_NO_THROW(run({0, 1}, {0, 0}, {1, 2}));
  EXPECT_THROW(run({0, 2}, {0, 0}, {1, 2}), Error);
  EXPECT_THROW(run({0, 1}, {0, 0}, {1, 3}), Error);
  EXPECT_THROW(run({0, 1}, {-1, 0}, {1, 2}), Error);
}

}  // namespace
}  // namespace maxtext
