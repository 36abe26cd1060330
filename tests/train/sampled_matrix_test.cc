// The parallel matrix of parallel_matrix_test.cc holds length and axes fixed where it varies documents and windows.
// Here all of them vary together: cases are chosen so that every pair of values of any two parameters occurs, which is
// where nearly all interactions show, and filled up with random ones (Cohen et al., The AETG system, 1997).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "testing/compare.h"
#include "testing_model/model_run.h"

namespace maxtext::testing {
namespace {

constexpr double kTolerance = 1e-5;
constexpr std::size_t kCases = 60;

constexpr std::array<std::array<std::int64_t, 2>, 3> kHeads = {{{4, 4}, {6, 2}, {5, 1}}};  // MHA, GQA, MQA
constexpr std::array<std::array<int, 2>, 3> kOuter = {{{1, 1}, {1, 2}, {2, 1}}};           // data, fsdp
constexpr std::array<int, 5> kContext = {2, 3, 4, 6, 8};
constexpr std::array kOrders = {ReorderStrategy::none, ReorderStrategy::dual_chunk_swap, ReorderStrategy::striped,
                                ReorderStrategy::balanced, ReorderStrategy::automatic};
enum Documents { whole_row, packed, on_shard_borders, kDocumentKinds };
enum Window { no_window, one, half_chunk, chunk_less_one, chunk_itself, chunk_and_one, beyond_the_row, kWindowKinds };
enum Length { one_token, cp_less_one, two_cp_and_one, prime, thousand, kLengthKinds };

enum Parameter { heads, outer, context, order, documents, window, length, kParameters };
constexpr std::array<std::size_t, kParameters> kValues = {
    kHeads.size(), kOuter.size(), kContext.size(), kOrders.size(), kDocumentKinds, kWindowKinds, kLengthKinds};

/// An index of a value for each parameter.
using Case = std::array<std::size_t, kParameters>;
/// Two parameters with a value of each.
using Pair = std::array<std::size_t, 4>;

std::set<Pair> pairs_of(const Case& one_case) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < kParameters; ++a) {
    for (std::size_t b = a + 1; b < kParameters; ++b) pairs.insert({a, one_case[a], b, one_case[b]});
  }
  return pairs;
}

std::set<Pair> all_pairs() {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < kParameters; ++a) {
    for (std::size_t b = a + 1; b < kParameters; ++b) {
      for (std::size_t x = 0; x < kValues[a]; ++x) {
        for (std::size_t y = 0; y < kValues[b]; ++y) pairs.insert({a, x, b, y});
      }
    }
  }
  return pairs;
}

class Sampler {
 public:
  Case random() {
    Case chosen{};
    // The generator's bits are the same everywhere, those of a standard distribution are not.
    for (std::size_t p = 0; p < kParameters; ++p) chosen[p] = static_cast<std::size_t>(bits_() % kValues[p]);
    return chosen;
  }

  /// A random case with the pair in it.
  Case with(const Pair& pair) {
    Case chosen = random();
    chosen[pair[0]] = pair[1];
    chosen[pair[2]] = pair[3];
    return chosen;
  }

 private:
  std::mt19937_64 bits_{20240607};
};

/// Greedy: of many candidates with the first pair that is missing, the one with most that are missing.
std::vector<Case> sampled_cases() {
  constexpr int kCandidates = 200;
  Sampler sampler;
  std::set<Pair> missing = all_pairs();
  std::vector<Case> cases;
  while (!missing.empty()) {
    Case best{};
    std::ptrdiff_t most = 0;
    for (int i = 0; i < kCandidates; ++i) {
      const Case candidate = sampler.with(*missing.begin());
      const std::set<Pair> pairs = pairs_of(candidate);
      const auto gain =
          std::count_if(pairs.begin(), pairs.end(), [&](const Pair& pair) { return missing.contains(pair); });
      if (gain > most) {
        most = gain;
        best = candidate;
      }
    }
    cases.push_back(best);
    for (const Pair& pair : pairs_of(best)) missing.erase(pair);
  }
  while (cases.size() < kCases) cases.push_back(sampler.random());
  return cases;
}

std::int64_t tokens(std::size_t kind, int cp) {
  switch (kind) {
    case one_token:
      return 1;
    case cp_less_one:
      return cp - 1;
    case two_cp_and_one:
      return 2 * cp + 1;
    case prime:
      return 127;
    default:
      return 1000;
  }
}

std::int64_t window_tokens(std::size_t kind, std::int64_t row, int cp) {
  const std::int64_t chunk = (row + 2 * cp - 1) / (2 * cp);
  const std::array<std::int64_t, kWindowKinds> all = {0, 1, chunk / 2, chunk - 1, chunk, chunk + 1, row + 5};
  return all.at(kind);
}

/// Lengths of the documents of two rows.
std::vector<std::vector<std::int64_t>> rows_of(std::size_t kind, std::int64_t row, int cp) {
  if (kind == whole_row) return {{row}, {row}};
  if (kind == packed) {
    // One token, none, padding at the tail; where there is room, more of them.
    if (row < 8) return {{1, 0}, {row}};
    return {{1, 0, row / 2, 1, row / 4}, {row / 3, row / 3, 1}};
  }
  std::vector<std::int64_t> on_borders;
  std::int64_t done = 0;
  for (int i = 1; i <= 2 * cp; ++i) {
    const std::int64_t border = i * row / (2 * cp);
    on_borders.push_back(border - done);
    done = border;
  }
  return {on_borders, {row}};
}

std::string describe(const Case& one_case) {
  std::string text = "case";
  for (const std::size_t value : one_case) text.append(" ").append(std::to_string(value));
  return text.append(" (heads, outer axes, context, order, documents, window, length)");
}

void expect_equal(const ModelRunResult& actual, const ModelRunResult& expected) {
  EXPECT_NEAR(actual.loss, expected.loss, kTolerance * std::abs(expected.loss));
  EXPECT_TRUE(bitwise_equal(actual.nll, expected.nll));
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, values] : expected.gradients) {
    EXPECT_LE(relative_difference(actual.gradients.at(name), values), kTolerance) << name;
  }
}

TEST(SampledMatrix, EveryPairOfValuesOccurs) {
  const std::vector<Case> cases = sampled_cases();
  EXPECT_LE(cases.size(), kCases) << "more than " << kCases << " were needed";
  std::set<Pair> found;
  for (const Case& one_case : cases) found.merge(pairs_of(one_case));
  EXPECT_EQ(found, all_pairs());
  EXPECT_EQ(sampled_cases(), cases) << "the same cases in every run";
}

/// Four parts, so that tests can run beside each other, and one that fails is found sooner.
class SampledMatrix : public ::testing::TestWithParam<std::size_t> {};

TEST_P(SampledMatrix, LossAndGradientsEqualOneDevice) {
  const std::vector<Case> cases = sampled_cases();
  for (std::size_t i = GetParam(); i < cases.size(); i += 4) {
    const Case& chosen = cases[i];
    SCOPED_TRACE(describe(chosen));
    const int cp = kContext.at(chosen[context]);
    const std::int64_t row = tokens(chosen[length], cp);
    const auto [query_heads, kv_heads] = kHeads.at(chosen[heads]);
    const ModelShape shape = small_shape(query_heads, kv_heads, {0, window_tokens(chosen[window], row, cp)});
    const RowBatch batch = random_batch(row, rows_of(chosen[documents], row, cp), shape.vocab_size, 3 + i);
    ModelRunOptions options;
    const auto [data, fsdp] = kOuter.at(chosen[outer]);
    options.mesh = {data, fsdp, cp, 1};
    options.reorder = kOrders.at(chosen[order]);
    expect_equal(run_model(shape, batch, options), run_model(shape, batch, {}));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, SampledMatrix, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace maxtext::testing
