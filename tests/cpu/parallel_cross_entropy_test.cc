// The ops of a cross-entropy over parts of the vocabulary, one device having all parts, against the formula in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/device.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

using Doubles = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Logits of N tokens, cut into parts of equal width.
struct LogitCase {
  std::int64_t parts = 1;
  std::int64_t width = 1;
  std::vector<Doubles> rows;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
  float inverse_denominator = 0.25F;

  std::int64_t tokens() const { return std::ssize(rows); }
  std::int64_t vocabulary() const { return parts * width; }
};

LogitCase make_case(std::int64_t parts, std::int64_t width, std::int64_t tokens) {
  LogitCase c{.parts = parts, .width = width, .rows = {}, .targets = {}, .weights = {}};
  for (std::int64_t t = 0; t < tokens; ++t) {
    c.rows.push_back(random_values<double>(parts * width, static_cast<unsigned>(t + 1), 2));
    c.targets.push_back(static_cast<std::int32_t>((t * 7 + t / parts) % (parts * width)));
    c.weights.push_back(0.5F + static_cast<float>(t % 3));
  }
  return c;
}

struct Part {
  Tensor logits, first_row, statistics;
};

template <typename T>
Part make_part(Engine& engine, const LogitCase& c, std::int64_t part) {
  std::vector<T> logits;
  for (const Doubles& row : c.rows) {
    for (std::int64_t v = 0; v < c.width; ++v) {
      logits.push_back(static_cast<T>(row[static_cast<std::size_t>(part * c.width + v)]));
    }
  }
  Part result;
  result.logits = put(engine, {c.tokens(), c.width}, logits);
  result.first_row = put(engine, {}, std::vector<std::int32_t>{static_cast<std::int32_t>(part * c.width)});
  result.statistics =
      engine.apply_one(LogitStatistics{}, {result.logits, put(engine, {c.tokens()}, c.targets), result.first_row});
  return result;
}

struct Found {
  Doubles sums;
  std::vector<float> nll;
  std::vector<Doubles> dlogits;  // per token, of the whole vocabulary; empty without gradient
};

/// What each part finds; sums and nll have the same bits in all.
template <typename T>
Found run_case(Engine& engine, const LogitCase& c, CrossEntropyFromStatistics op) {
  op.vocabulary = c.vocabulary();
  std::vector<Part> parts;
  std::vector<Tensor> all;
  for (std::int64_t part = 0; part < c.parts; ++part) {
    parts.push_back(make_part<T>(engine, c, part));
    all.push_back(engine.apply_one(Reshape{{1, 3, c.tokens()}}, {parts.back().statistics}));
  }
  const Tensor statistics = engine.apply(Concat{.axis = 0}, all)[0];
  Found found;
  for (std::int64_t part = 0; part < c.parts; ++part) {
    const Part& mine = parts[static_cast<std::size_t>(part)];
    std::vector<Tensor> inputs{statistics, put(engine, {c.tokens()}, c.targets), put(engine, {c.tokens()}, c.weights)};
    if (op.with_gradient) {
      inputs.insert(inputs.end(),
                    {mine.logits, put(engine, {}, std::vector<float>{c.inverse_denominator}), mine.first_row});
    }
    const std::vector<Tensor> outputs = engine.apply(op, inputs);
    const Doubles sums = get<double>(engine, outputs[0]);
    const std::vector<float> nll = get<float>(engine, outputs[1]);
    if (part == 0) {
      found.sums = sums;
      found.nll = nll;
      if (op.with_gradient) found.dlogits.resize(c.rows.size());
    }
    EXPECT_EQ(std::memcmp(found.sums.data(), sums.data(), sizeof(double) * 2), 0) << part;
    EXPECT_TRUE(bitwise_equal(nll, found.nll)) << part;
    if (!op.with_gradient) continue;
    const std::vector<T> dlogits = get<T>(engine, outputs[2]);
    for (std::size_t i = 0; i < dlogits.size(); ++i) {
      found.dlogits[i / static_cast<std::size_t>(c.width)].push_back(static_cast<double>(dlogits[i]));
    }
  }
  return found;
}

Found reference(const LogitCase& c, const CrossEntropyFromStatistics& op) {
  Found expected{.sums = {0, 0}, .nll = {}, .dlogits = {}};
  for (std::size_t t = 0; t < c.rows.size(); ++t) {
    const double weight = static_cast<double>(c.weights[t]);
    Doubles gradient(c.rows[t].size(), 0.0);
    expected.nll.push_back(0);
    if (weight != 0) {
      double top = -kInfinity;
      for (const double logit : c.rows[t]) top = std::max(top, logit);
      double sum = 0;
      for (const double logit : c.rows[t]) sum += std::exp(logit - top);
      const double lse = top + std::log(sum);
      const auto target = static_cast<std::size_t>(c.targets[t]);
      const double nll = lse - c.rows[t][target];
      expected.nll.back() = static_cast<float>(nll);
      expected.sums[0] += weight * nll;
      expected.sums[1] += weight * op.z_loss_multiplier * lse * lse;
      for (std::size_t v = 0; v < gradient.size(); ++v) {
        const double tangent = op.softcap > 0 ? c.rows[t][v] / op.softcap : 0;
        const double softmax = std::exp(c.rows[t][v] - top) / sum * (1 + 2 * op.z_loss_multiplier * lse);
        gradient[v] = (softmax - (v == target ? 1 : 0)) * (1 - tangent * tangent) * weight *
                      static_cast<double>(c.inverse_denominator);
      }
    }
    expected.dlogits.push_back(std::move(gradient));
  }
  return expected;
}

void expect_close(const Found& found, const Found& expected, double tolerance, const std::string& what) {
  EXPECT_TRUE(all_close(std::span<const double>(found.sums), std::span<const double>(expected.sums), tolerance,
                        what + ", sums"));
  EXPECT_TRUE(all_close(std::span<const float>(found.nll), std::span<const float>(expected.nll),
                        std::max(tolerance, 1e-7), what + ", nll"));
  for (std::size_t t = 0; t < found.dlogits.size(); ++t) {
    EXPECT_TRUE(all_close(std::span<const double>(found.dlogits[t]), std::span<const double>(expected.dlogits[t]),
                          tolerance, what + ", dlogits of token " + std::to_string(t)));
  }
}

void expect_formula(const LogitCase& c, const CrossEntropyFromStatistics& op, const std::string& what) {
  CpuDevice device(2);
  const Found expected = reference(c, op);
  expect_close(run_case<double>(*device, c, op), expected, 1e-13, what + ", float64");
  expect_close(run_case<float>(*device, c, op), expected, 3e-6, what + ", float32");
  CrossEntropyFromStatistics forward = op;
  forward.with_gradient = false;
  expect_close(run_case<float>(*device, c, forward), expected, 3e-6, what + ", without gradient");
}

TEST(LogitStatistics, AreMaximumSumAndTheTargetsLogit) {
  CpuDevice device(2);
  for (const std::int64_t width : {1, 33, 1024, 1025, 2500}) {
    const LogitCase c = make_case(2, width, 5);
    const Doubles found = get<double>(*device, make_part<double>(*device, c, 1).statistics);
    for (std::size_t t = 0; t < 5; ++t) {
      const auto middle = c.rows[t].begin() + static_cast<std::ptrdiff_t>(width);
      const double top = *std::max_element(middle, c.rows[t].end());
      double sum = 0;
      for (auto logit = middle; logit != c.rows[t].end(); ++logit) sum += std::exp(*logit - top);
      const std::int32_t target = c.targets[t];
      EXPECT_EQ(found[t], top);
      EXPECT_NEAR(found[5 + t], sum, 1e-13 * sum);
      EXPECT_EQ(found[10 + t], target >= width ? c.rows[t][static_cast<std::size_t>(target)] : 0);
    }
  }
}

TEST(LogitStatistics, ARowWithoutFiniteLogitsIsEmptyAndNaNAreFound) {
  CpuDevice device(1);
  LogitCase c = make_case(1, 40, 3);
  c.rows[0].assign(40, -kInfinity);
  c.rows[1].assign(40, -kInfinity);
  c.rows[1][17] = kNaN;
  c.rows[2].assign(40, kNaN);
  c.targets = {-1, 40, std::numeric_limits<std::int32_t>::min()};
  const auto expect = [](const auto& found) {
    EXPECT_EQ(found[0], -kInfinity);
    EXPECT_EQ(found[3], 0);
    EXPECT_TRUE(std::isnan(found[4]));
    EXPECT_TRUE(std::isnan(found[5]));
    for (std::size_t t = 6; t < 9; ++t) EXPECT_EQ(found[t], 0);
  };
  expect(get<float>(*device, make_part<float>(*device, c, 0).statistics));
  expect(get<double>(*device, make_part<double>(*device, c, 0).statistics));
}

TEST(CrossEntropyFromStatistics, EqualsTheFormulaForAnyNumberOfParts) {
  for (const std::int64_t parts : {1, 2, 3, 5}) {
    for (const std::int64_t width : {1, 33, 2500}) {
      if (parts * width < 2) continue;
      LogitCase c = make_case(parts, width, 12);
      c.weights[3] = 0;
      expect_formula(c, {.z_loss_multiplier = 1e-2}, "no softcap");
      for (Doubles& row : c.rows) {
        for (double& logit : row) logit = 3 * std::tanh(logit / 3);
      }
      expect_formula(c, {.z_loss_multiplier = 1e-2, .softcap = 3}, "softcap");
    }
  }
}

TEST(CrossEntropyFromStatistics, PartsMayBeEmptyHugeOrTiny) {
  const std::int64_t width = 40;
  for (const double level : {-kInfinity, -1e30, -2000.0, 2000.0, 1e6}) {
    for (const std::size_t part : {0U, 1U, 2U}) {
      LogitCase c = make_case(3, width, 6);
      for (Doubles& row : c.rows) {
        for (std::size_t v = part * 40; v < part * 40 + 40; ++v) row[v] = level;
      }
      // A target of the probability 0 has an infinite loss.
      for (std::size_t t = 0; t < c.targets.size(); ++t) {
        const std::size_t other = level < 0 ? (part + 1) % 3 : part;
        c.targets[t] = static_cast<std::int32_t>(other * 40 + t);
      }
      expect_formula(c, {.z_loss_multiplier = 1e-7}, "a part at " + std::to_string(level));
    }
  }
}

TEST(CrossEntropyFromStatistics, ATargetOfProbabilityZeroIsInfinitelyUnlikely) {
  CpuDevice device(1);
  LogitCase c = make_case(2, 5, 1);
  c.targets = {7};
  c.rows[0][7] = -kInfinity;
  EXPECT_EQ(run_case<float>(*device, c, {}).nll[0], std::numeric_limits<float>::infinity());
}

TEST(CrossEntropyFromStatistics, GradientIsThatOfTheWeightedSums) {
  CpuDevice device(1);
  for (const double softcap : {0.0, 4.0}) {
    LogitCase c = make_case(2, 3, 4);
    // The gradient is that of what the softcap was given.
    std::vector<Doubles> raw = c.rows;
    const auto cap = [&] {
      for (std::size_t t = 0; t < raw.size(); ++t) {
        for (std::size_t v = 0; v < raw[t].size(); ++v) {
          c.rows[t][v] = softcap > 0 ? softcap * std::tanh(raw[t][v] / softcap) : raw[t][v];
        }
      }
    };
    const CrossEntropyFromStatistics op{.z_loss_multiplier = 0.05, .softcap = softcap};
    const auto loss = [&] {
      cap();
      const Doubles sums = run_case<double>(*device, c, op).sums;
      return (sums[0] + sums[1]) * static_cast<double>(c.inverse_denominator);
    };
    cap();
    const std::vector<Doubles> dlogits = run_case<double>(*device, c, op).dlogits;
    for (std::size_t t = 0; t < raw.size(); ++t) {
      for (std::size_t v = 0; v < raw[t].size(); ++v) {
        const double saved = raw[t][v];
        raw[t][v] = saved + 1e-5;
        const double above = loss();
        raw[t][v] = saved - 1e-5;
        EXPECT_NEAR((above - loss()) / 2e-5, dlogits[t][v], 1e-8) << t << ", " << v;
        raw[t][v] = saved;
      }
    }
  }
}

TEST(CrossEntropyFromStatistics, WhatHasNoWeightDoesNotLeak) {
  CpuDevice device(2);
  LogitCase clean = make_case(2, 33, 8);
  clean.weights[2] = clean.weights[5] = 0;
  LogitCase dirty = clean;
  for (const std::size_t t : {2U, 5U}) {
    dirty.rows[t].assign(66, kNaN);
    dirty.targets[t] = t == 2 ? -1 : 66;
  }
  const CrossEntropyFromStatistics op{.z_loss_multiplier = 1e-2, .softcap = 20};
  const Found expected = run_case<float>(*device, clean, op), found = run_case<float>(*device, dirty, op);
  EXPECT_EQ(found.sums, expected.sums);
  EXPECT_EQ(found.nll, expected.nll);
  EXPECT_EQ(found.dlogits, expected.dlogits);
  EXPECT_EQ(found.nll[2], 0);
  EXPECT_EQ(found.dlogits[5], Doubles(66, 0.0));
}

TEST(CrossEntropyFromStatistics, ANaNOfAnyPartIsSeenInTheLoss) {
  CpuDevice device(1);
  for (const std::size_t at : {3U, 40U}) {
    LogitCase c = make_case(2, 33, 3);
    c.rows[1][at] = kNaN;
    const Found found = run_case<float>(*device, c, {});
    EXPECT_TRUE(std::isnan(found.sums[0]));
    EXPECT_TRUE(std::isnan(found.nll[1]));
    EXPECT_TRUE(std::isfinite(found.nll[0]));
  }
}

TEST(CrossEntropyFromStatistics, ATargetOutsideTheVocabularyIsNamed) {
  CpuDevice device(1);
  LogitCase c = make_case(2, 3, 4);
  for (const std::int32_t target : {-1, 6}) {
    c.targets[2] = target;
    EXPECT_THAT([&] { run_case<float>(*device, c, {}); },
                ::testing::ThrowsMessage<Error>("cross_entropy_from_statistics: target " + std::to_string(target) +
                                                " at 2 is not within [0, 6)"));
  }
}

}  // namespace
}  // namespace maxtext::testing
