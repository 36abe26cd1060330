// Decode attention against its formula, on every instruction set of the host; what it never reads is poison
// (cpu/decode_case.h).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/decode_case.h"
#include "testing/compare.h"

namespace maxtext {
namespace {

using testing::bitwise_equal;
using testing::CacheLayout;
using testing::decode_problem;
using testing::DecodeProblem;
using testing::DecodeResult;
using testing::expect_close;
using testing::expected_result;
using testing::run_decode;

constexpr DType cache_dtypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::int8};

std::string described(DType dtype, InstructionSet set) {
  return std::string(dtype_name(dtype)) + " " + std::string(instruction_set_name(set));
}

/// On every instruction set, with two threads.
void expect_formula(const DecodeProblem& x, const std::string& what) {
  const DecodeResult expected = expected_result(x);
  for (const InstructionSet set : available_instruction_sets()) {
    expect_close(run_decode(x, {2, set}), expected, what + " " + described(x.shape.cache_dtype, set));
  }
}

void expect_bitwise(const DecodeResult& a, const DecodeResult& b, const std::string& what) {
  EXPECT_TRUE(bitwise_equal(a.o, b.o, what + " o"));
  EXPECT_TRUE(bitwise_equal(a.l, b.l, what + " l"));
  EXPECT_TRUE(bitwise_equal(a.m, b.m, what + " m"));
}

TEST(DecodeAttention, EveryGroupSizeAndLengthInEveryDtype) {
  for (const DType dtype : cache_dtypes) {
    for (const std::int64_t group : {1, 2, 3, 4, 7, 8, 17, 64}) {
      const DecodeShape shape{
          .query_heads = 2 * group, .kv_heads = 2, .head_dim = 32, .capacity = 300, .cache_dtype = dtype};
      const DecodeProblem x = decode_problem(shape, {0, 0, 3, 100, 5, 0, 0}, {0, 1, 127, 128, 129, 300, 7});
      expect_formula(x, "group " + std::to_string(group));
    }
  }
}

TEST(DecodeAttention, EveryHeadDim) {
  for (const DType dtype : cache_dtypes) {
    for (const std::int64_t head_dim : {1, 8, 16, 20, 33, 64, 80, 96, 128, 256}) {
      const DecodeShape shape{.query_heads = 5, .kv_heads = 1, .head_dim = head_dim, .cache_dtype = dtype};
      expect_formula(decode_problem(shape, {2, 0}, {150, 41}), "head_dim " + std::to_string(head_dim));
    }
  }
}

TEST(DecodeAttention, LongerThanABlockAndAChunk) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const std::int64_t group : {1, 4, 6}) {
      const DecodeShape shape{.query_heads = group, .kv_heads = 1, .head_dim = 16, .cache_dtype = dtype};
      const DecodeProblem x = decode_problem(shape, {0, 17}, {4500, 2049});
      expect_formula(x, "long, group " + std::to_string(group));
      DecodeProblem invariant = x;
      invariant.shape.batch_invariant = true;
      expect_formula(invariant, "fixed chunks, group " + std::to_string(group));
    }
  }
}

TEST(DecodeAttention, UnnormalisedOutputIsTheState) {
  DecodeShape shape{.query_heads = 6, .kv_heads = 2, .head_dim = 32, .normalize = false};
  expect_formula(decode_problem(shape, {0, 4, 9}, {200, 4, 10}), "unnormalised");
}

TEST(DecodeAttention, AnySplitMergesToTheSame) {
  for (const std::int64_t length : {1, 255, 256, 257, 1000}) {
    const DecodeShape shape{.query_heads = 4, .kv_heads = 1, .head_dim = 32};
    const DecodeProblem x = decode_problem(shape, {0}, {static_cast<std::int32_t>(length)});
    const DecodeResult expected = expected_result(x);
    for (const int threads : {1, 2, 3, 5, 8}) {
      expect_close(run_decode(x, {.threads = threads}), expected, std::to_string(threads) + " threads");
    }
  }
}

TEST(DecodeAttention, RepeatsBitForBit) {
  const DecodeShape shape{.query_heads = 8, .kv_heads = 2, .head_dim = 64, .cache_dtype = DType::bfloat16};
  const DecodeProblem x = decode_problem(shape, {0, 0, 30}, {900, 333, 700});
  for (const InstructionSet set : available_instruction_sets()) {
    expect_bitwise(run_decode(x, {3, set}), run_decode(x, {3, set}), described(DType::bfloat16, set));
  }
}

TEST(DecodeAttention, BatchInvariantBitForBit) {
  for (const DType dtype : cache_dtypes) {
    const DecodeShape shape{.query_length = 2,
                            .query_heads = 6,
                            .kv_heads = 2,
                            .head_dim = 32,
                            .capacity = 3000,
                            .cache_dtype = dtype,
                            .batch_invariant = true};
    DecodeProblem batch = decode_problem(shape, {0, 5, 0, 1100}, {2100, 300, 5, 3000});
    // The same arrays hold the third sequence alone, when the others are empty.
    for (const InstructionSet set : available_instruction_sets()) {
      const DecodeResult together = run_decode(batch, {2, set});
      for (const int threads : {1, 3, 7}) {
        expect_bitwise(run_decode(batch, {threads, set}), together, std::to_string(threads) + " threads");
      }
      DecodeProblem alone = batch;
      alone.kv_seq_len = {2100, 0, 0, 0};
      const DecodeResult first = run_decode(alone, {2, set});
      const auto part = [](const std::vector<float>& values, std::size_t parts) {
        return std::span(values).subspan(0, values.size() / parts);
      };
      EXPECT_TRUE(bitwise_equal(part(first.o, 4), part(together.o, 4), described(dtype, set)));
      EXPECT_TRUE(bitwise_equal(part(first.l, 4), part(together.l, 4), described(dtype, set)));
    }
  }
}

TEST(DecodeAttention, SeveralRowsAreAlignedAtTheEnd) {
  for (const DType dtype : cache_dtypes) {
    for (const std::int64_t rows : {2, 3, 5, 8}) {
      for (const std::int64_t group : {1, 3, 4}) {
        for (const std::int64_t window : {0, 1, 6, 140}) {
          const DecodeShape shape{.query_length = rows,
                                  .query_heads = 2 * group,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .cache_dtype = dtype,
                                  .window = window};
          // Among them rows before the first position and before start_idx.
          const DecodeProblem x = decode_problem(shape, {0, 0, 298, 7, 0}, {300, 2, 300, 129, 0});
          expect_formula(
              x, std::to_string(rows) + " rows, group " + std::to_string(group) + ", window " + std::to_string(window));
        }
      }
    }
  }
}

TEST(DecodeAttention, SeveralRowsEqualSingleSteps) {
  const std::int64_t T = 4;
  const std::int64_t D = 32;
  const DecodeShape shape{.query_length = T, .query_heads = 4, .kv_heads = 2, .head_dim = D, .window = 50};
  const DecodeProblem x = decode_problem(shape, {0, 3}, {260, 60});
  const DecodeResult together = run_decode(x, {.threads = 2});
  for (std::int64_t t = 0; t < T; ++t) {
    DecodeProblem step = x;
    step.shape.query_length = 1;
    step.q.clear();
    std::vector<float> expected;
    const std::int64_t token = shape.query_heads * D;
    for (std::int64_t b = 0; b < 2; ++b) {
      step.kv_seq_len[static_cast<std::size_t>(b)] -= static_cast<std::int32_t>(T - 1 - t);
      const auto begin = (b * T + t) * token;
      step.q.insert(step.q.end(), x.q.begin() + begin, x.q.begin() + begin + token);
      expected.insert(expected.end(), together.o.begin() + begin, together.o.begin() + begin + token);
    }
    EXPECT_TRUE(testing::all_close(run_decode(step, {.threads = 2}).o, expected, 1e-6, "row " + std::to_string(t)));
  }
}

TEST(DecodeAttention, RingHoldsTheWindow) {
  const std::int32_t window = 130;
  for (const DType dtype : cache_dtypes) {
    for (const std::int64_t rows : {1, 3}) {
      for (const std::int32_t length : {1, window - 1, window, window + 1, 2 * window, 2 * window + 5, 5 * window}) {
        const DecodeShape shape{.query_length = rows,
                                .query_heads = 4,
                                .kv_heads = 2,
                                .head_dim = 16,
                                .capacity = window + rows - 1,
                                .cache_dtype = dtype,
                                .window = window,
                                .ring = true};
        const DecodeProblem x = decode_problem(shape, {0}, {length});
        expect_formula(x, "length " + std::to_string(length));
        // The whole history in a cache without a ring sees the same.
        DecodeProblem whole = x;
        whole.shape.ring = false;
        whole.shape.capacity = 5 * window;
        expect_close(run_decode(whole, {.threads = 2}), expected_result(x), "without a ring");
      }
    }
  }
}

TEST(DecodeAttention, OverwrittenPositionsOfARingAreNotSeen) {
  const DecodeShape shape{
      .query_length = 2, .query_heads = 2, .kv_heads = 1, .head_dim = 16, .capacity = 40, .ring = true};
  expect_formula(decode_problem(shape, {0, 70}, {100, 75}), "ring without a window");
}

TEST(DecodeAttention, PartsOfACacheTakeNegativeAndLargeLengths) {
  // 300 positions on three devices of 100: each passes start and length less its first position.
  const DecodeShape whole{.query_length = 2, .query_heads = 4, .kv_heads = 2, .head_dim = 16, .normalize = false};
  const DecodeProblem x = decode_problem(whole, {20, 0, 150}, {300, 90, 201});
  const DecodeResult expected = expected_result(x);
  std::vector<double> l(expected.l.size(), 0);
  for (int device = 0; device < 3; ++device) {
    DecodeProblem part = x;
    part.shape.capacity = part.positions = 100;
    part.k.clear();
    part.v.clear();
    for (std::int64_t pair = 0; pair < 3 * 2; ++pair) {
      const auto begin = (pair * x.positions + device * 100) * 16;
      part.k.insert(part.k.end(), x.k.begin() + begin, x.k.begin() + begin + 100 * 16);
      part.v.insert(part.v.end(), x.v.begin() + begin, x.v.begin() + begin + 100 * 16);
    }
    for (std::size_t b = 0; b < 3; ++b) {
      part.start_idx[b] -= device * 100;
      part.kv_seq_len[b] -= device * 100;
    }
    const DecodeResult result = run_decode(part, {.threads = 2});
    for (std::size_t i = 0; i < l.size(); ++i) {
      if (result.l[i] > 0) l[i] += static_cast<double>(result.l[i]) * std::exp(result.m[i] - expected.m[i]);
    }
  }
  for (std::size_t i = 0; i < l.size(); ++i) EXPECT_NEAR(l[i], expected.l[i], 1e-5 * expected.l[i]) << i;
}

TEST(DecodeAttention, SoftcapAndSinks) {
  for (const double softcap : {0.0, 2.0, 50.0}) {
    for (const bool normalize : {false, true}) {
      const DecodeShape shape{
          .query_heads = 4, .kv_heads = 2, .head_dim = 32, .softcap = softcap, .normalize = normalize};
      DecodeProblem x = decode_problem(shape, {0, 0, 10}, {300, 1, 5});
      expect_formula(x, "softcap");
      x.sinks = {0.5F, -20, 30, 2};
      expect_formula(x, "softcap and sinks");
    }
  }
}

TEST(DecodeAttention, ASinkAloneGivesZero) {
  const DecodeShape shape{.query_heads = 2, .kv_heads = 1, .head_dim = 8, .capacity = 10};
  DecodeProblem x = decode_problem(shape, {0}, {0});
  x.sinks = {3, -4};
  const DecodeResult result = run_decode(x, {.threads = 2});
  EXPECT_EQ(result.o, std::vector<float>(16, 0));
  EXPECT_EQ(result.l, (std::vector<float>{1, 1}));
  EXPECT_EQ(result.m, (std::vector<float>{3, -4}));
}

TEST(DecodeAttention, LargeScoresStayExact) {
  const DecodeShape shape{.query_heads = 4, .kv_heads = 1, .head_dim = 32};
  DecodeProblem x = decode_problem(shape, {0, 0}, {600, 700});
  // Scores of thousands, rising and falling along the keys: every block changes the maximum.
  for (float& q : x.q) q *= 30;
  for (float& k : x.k) k *= 30;
  const DecodeResult expected = expected_result(x);
  for (const InstructionSet set : available_instruction_sets()) {
    const testing::DecodeErrors errors = testing::decode_errors(run_decode(x, {2, set}), expected);
    EXPECT_LE(errors.o, 5e-3);
    EXPECT_LE(errors.m, 1e-2);
  }
}

TEST(DecodeAttention, SeenNaNIsNotHiddenAndReachesNoOtherRow) {
  for (const std::int64_t group : {1, 2, 4}) {
    const DecodeShape shape{.query_length = 3, .query_heads = group, .kv_heads = 1, .head_dim = 16};
    for (const bool in_values : {false, true}) {
      DecodeProblem x = decode_problem(shape, {0}, {200});
      std::vector<float>& poisoned = in_values ? x.v : x.k;
      poisoned[199 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
      const DecodeResult result = run_decode(x, {.threads = 2});
      for (std::int64_t row = 0; row < 3 * group; ++row) {
        const bool newest = row >= 2 * group;
        EXPECT_EQ(std::isnan(result.o[static_cast<std::size_t>(row * 16 + 3)]), newest) << row;
      }
    }
  }
}

TEST(DecodeAttention, LayoutsAreBitwiseEqual) {
  for (const DType dtype : cache_dtypes) {
    const DecodeShape shape{
        .query_heads = 6, .kv_heads = 3, .head_dim = 40, .capacity = 400, .cache_dtype = dtype, .window = 350};
    const DecodeProblem x = decode_problem(shape, {0, 11}, {399, 300});
    for (const InstructionSet set : available_instruction_sets()) {
      expect_bitwise(run_decode(x, {2, set}, CacheLayout::slot_major), run_decode(x, {2, set}, CacheLayout::head_major),
                     described(dtype, set));
    }
  }
}

TEST(DecodeAttention, Int8IsWithinAPercentAt16k) {
  const DecodeShape shape{.query_heads = 4, .kv_heads = 1, .head_dim = 64};
  DecodeProblem x = decode_problem(shape, {0}, {16384});
  // Attention's usual scale: scores of unit variance. Values average out, so this is the hardest relative error.
  x.shape.scale = 0.125;
  const DecodeResult exact = run_decode(x, {.threads = 2});
  x.shape.cache_dtype = DType::int8;
  const DecodeResult quantized = run_decode(x, {.threads = 2});
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < exact.o.size(); ++i) {
    difference += std::pow(static_cast<double>(quantized.o[i]) - exact.o[i], 2);
    size += std::pow(static_cast<double>(exact.o[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference / size), 1e-2);
  EXPECT_GT(difference, 0);
}

TEST(DecodeAttention, TakesTheWorkspaceItTold) {
  for (const bool invariant : {false, true}) {
    const DecodeShape shape{.query_length = 2,
                            .query_heads = 12,
                            .kv_heads = 4,
                            .head_dim = 24,
                            .capacity = 2500,
                            .batch_invariant = invariant};
    DecodeProblem x = decode_problem(shape, {0, 0}, {2500, 1900});
    Workspace workspace;
    const testing::PoisonedCache cache(x, x.k, CacheLayout::head_major);
    std::vector<float> o(x.q.size());
    std::vector<float> l(static_cast<std::size_t>(2 * 12 * 2));
    std::vector<float> m(l.size());
    decode_attention(x.shape,
                     {.q = x.q.data(),
                      .k = cache.view(x.shape),
                      .v = cache.view(x.shape),
                      .start_idx = x.start_idx.data(),
                      .kv_seq_len = x.kv_seq_len.data(),
                      .o = o.data(),
                      .l = l.data(),
                      .m = m.data()},
                     workspace, {.threads = 3});
    EXPECT_EQ(workspace.bytes(), Workspace::held_bytes(decode_attention_workspace(x.shape, {.threads = 3})));
  }
}

TEST(DecodeAttention, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(decode_attention_workspace({.batch = 1, .query_heads = 3, .kv_heads = 2, .head_dim = 8, .capacity = 1}),
               Error);
  EXPECT_THROW(decode_attention_workspace({.batch = 1, .query_heads = 2, .kv_heads = 2, .head_dim = 0, .capacity = 1}),
               Error);
}

}  // namespace
}  // namespace maxtext
