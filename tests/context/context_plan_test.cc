// Every plan is checked against what its request says token by token, for all strategies.
#include "context/context_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "context/request_cases.h"

namespace maxtext {
namespace {

using testing::describe;
using testing::fixed_strategies;
using testing::one_document;

// The document of each token, -1 in padding.
std::vector<int> document_of_tokens(const std::vector<std::int64_t>& lengths, std::int64_t padded) {
  std::vector<int> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    documents.insert(documents.end(), static_cast<std::size_t>(lengths[i]), static_cast<int>(i));
  }
  documents.resize(static_cast<std::size_t>(padded), -1);
  return documents;
}

bool visible(const std::vector<int>& documents, std::int64_t query, std::int64_t key, std::int64_t window) {
  const int document = documents[static_cast<std::size_t>(query)];
  return document >= 0 && document == documents[static_cast<std::size_t>(key)] && key <= query &&
         (window == 0 || query - key < window);
}

void expect_permutation(const ContextPlan& plan, std::int64_t row) {
  const std::int64_t slots = plan.slots_per_device();
  ASSERT_EQ(slots * plan.context_parallelism(), plan.padded_length());
  ASSERT_EQ(static_cast<std::int64_t>(plan.gathered_slots(row).size()), plan.padded_length());
  std::set<std::int32_t> seen;
  for (int device = 0; device < plan.context_parallelism(); ++device) {
    const auto tokens = plan.tokens(row, device);
    ASSERT_EQ(static_cast<std::int64_t>(tokens.size()), slots);
    ASSERT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
    for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
      ASSERT_GE(tokens[slot], 0);
      ASSERT_LT(tokens[slot], plan.padded_length());
      ASSERT_TRUE(seen.insert(tokens[slot]).second) << "token " << tokens[slot] << " twice";
      ASSERT_EQ(plan.gathered_slots(row)[static_cast<std::size_t>(tokens[slot])],
                device * slots + static_cast<std::int64_t>(slot));
    }
  }
}

void expect_documents(const ContextPlan& plan, std::int64_t row, const std::vector<int>& documents) {
  std::int32_t position = 0;
  for (std::size_t t = 0; t < documents.size(); ++t) {
    const bool padding = documents[t] < 0;
    position = padding || t == 0 || documents[t] != documents[t - 1] ? 0 : position + 1;
    ASSERT_EQ(plan.position_ids(row)[t], position);
    ASSERT_EQ(plan.segment_ids(row)[t] == 0, padding);
    if (t > 0 && !padding) {
      ASSERT_EQ(plan.segment_ids(row)[t], plan.segment_ids(row)[t - 1] + (documents[t] != documents[t - 1] ? 1 : 0));
    }
  }
}

// Returns the visible pairs of each device in this row, counted one by one.
std::vector<std::int64_t> expect_intervals(const ContextPlan& plan, std::int64_t row, std::size_t type,
                                           const std::vector<int>& documents) {
  const std::int64_t window = plan.attention_types()[type].window;
  std::vector<std::int64_t> area(static_cast<std::size_t>(plan.context_parallelism()), 0);
  for (int device = 0; device < plan.context_parallelism(); ++device) {
    const KeyIntervals keys = plan.key_intervals(row, device, type);
    const auto tokens = plan.tokens(row, device);
    EXPECT_EQ(keys.begin.size(), tokens.size());
    EXPECT_EQ(keys.end.size(), tokens.size());
    for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
      for (std::int64_t key = 0; key < plan.padded_length(); ++key) {
        const bool inside = keys.begin[slot] <= key && key < keys.end[slot];
        const bool expected = visible(documents, tokens[slot], key, window);
        EXPECT_EQ(inside, expected) << "query " << tokens[slot] << " key " << key << " window " << window;
        area[static_cast<std::size_t>(device)] += expected ? 1 : 0;
      }
      if (documents[static_cast<std::size_t>(tokens[slot])] < 0) {
        EXPECT_EQ(keys.begin[slot], 0);
        EXPECT_EQ(keys.end[slot], 0);
      }
    }
  }
  return area;
}

void expect_plan(const ContextPlanRequest& request) {
  SCOPED_TRACE(describe(request));
  const ContextPlan plan(request);
  ASSERT_EQ(plan.rows(), static_cast<std::int64_t>(request.document_lengths.size()));
  ASSERT_GE(plan.padded_length(), request.sequence_length);
  ASSERT_LT(plan.padded_length(), request.sequence_length + 2 * request.context_parallelism);
  std::vector<std::vector<std::int64_t>> area(
      request.attention_types.size(),
      std::vector<std::int64_t>(static_cast<std::size_t>(request.context_parallelism), 0));
  for (std::int64_t row = 0; row < plan.rows(); ++row) {
    const auto documents =
        document_of_tokens(request.document_lengths[static_cast<std::size_t>(row)], plan.padded_length());
    ASSERT_NO_FATAL_FAILURE(expect_permutation(plan, row));
    ASSERT_NO_FATAL_FAILURE(expect_documents(plan, row, documents));
    for (std::size_t type = 0; type < area.size(); ++type) {
      const auto counted = expect_intervals(plan, row, type, documents);
      for (std::size_t d = 0; d < counted.size(); ++d) area[type][d] += counted[d];
    }
  }
  std::vector<double> weighted(static_cast<std::size_t>(request.context_parallelism), 0.0);
  for (std::size_t type = 0; type < area.size(); ++type) {
    EXPECT_EQ(plan.area(type), area[type]);
    for (std::size_t d = 0; d < weighted.size(); ++d) {
      weighted[d] += request.attention_types[type].layers * static_cast<double>(area[type][d]);
    }
  }
  EXPECT_EQ(plan.weighted_area(), weighted);
  const double sum = std::accumulate(weighted.begin(), weighted.end(), 0.0);
  const double imbalance =
      sum > 0 ? *std::max_element(weighted.begin(), weighted.end()) / (sum / static_cast<double>(weighted.size())) : 1;
  EXPECT_NEAR(plan.imbalance(), imbalance, 1e-12);
  ASSERT_FALSE(::testing::Test::HasFailure());
}

// Documents at random: zero lengths, single tokens and a padding tail are frequent.
std::vector<std::int64_t> random_documents(std::int64_t length, std::mt19937_64& random) {
  std::vector<std::int64_t> lengths;
  std::int64_t left = length;
  while (left > 0 && random() % 8 != 0) {
    const std::int64_t most = std::min<std::int64_t>(left, 1 + static_cast<std::int64_t>(random() % 20));
    lengths.push_back(random() % 4 == 0 ? static_cast<std::int64_t>(random() % 2) % (most + 1)
                                        : static_cast<std::int64_t>(random()) % (most + 1));
    lengths.back() = std::abs(lengths.back());
    left -= lengths.back();
  }
  return lengths;
}

TEST(ContextPlanProperties, EveryLengthAndDeviceCountWithRandomDocuments) {
  std::mt19937_64 random(7);
  for (std::int64_t length = 1; length <= 40; ++length) {
    for (int devices = 1; devices <= 8; ++devices) {
      for (const ReorderStrategy strategy : fixed_strategies()) {
        ContextPlanRequest request;
        request.sequence_length = length;
        request.context_parallelism = devices;
        request.reorder = strategy;
        request.stripe = 1 + static_cast<std::int64_t>(random() % 4);
        request.document_lengths = {{length}, random_documents(length, random), random_documents(length, random)};
        request.attention_types = {{0, 1.0}, {1 + static_cast<std::int64_t>(random() % 8), 3.0}, {length + 3, 0.5}};
        ASSERT_NO_FATAL_FAILURE(expect_plan(request));
      }
    }
  }
}

TEST(ContextPlanProperties, BoundariesAtEveryShardEdgeAndWindowsAroundAChunk) {
  for (int devices = 1; devices <= 8; ++devices) {
    const std::int64_t length = 8LL * devices;
    const std::int64_t chunk = length / (2 * devices);
    for (const std::int64_t piece : {chunk, 2 * chunk, std::int64_t{1}, length}) {
      for (const ReorderStrategy strategy : fixed_strategies()) {
        ContextPlanRequest request;
        request.sequence_length = length;
        request.context_parallelism = devices;
        request.reorder = strategy;
        request.document_lengths = {std::vector<std::int64_t>(static_cast<std::size_t>(length / piece), piece)};
        request.attention_types.clear();
        for (const std::int64_t window : {std::int64_t{1}, chunk - 1, chunk, chunk + 1, length, length + 1}) {
          request.attention_types.push_back({window, 1.0});
        }
        ASSERT_NO_FATAL_FAILURE(expect_plan(request));
      }
    }
  }
}

TEST(ContextPlanProperties, RowsWithoutDocumentsAreAllPadding) {
  for (const ReorderStrategy strategy : fixed_strategies()) {
    ContextPlanRequest request = one_document(13, 3, strategy);
    request.document_lengths = {{}, {0, 0}};
    ASSERT_NO_FATAL_FAILURE(expect_plan(request));
    EXPECT_EQ(ContextPlan(request).imbalance(), 1.0);
  }
}

TEST(ContextPlan, OneDeviceKeepsTheOrderAndIsNotPadded) {
  for (const ReorderStrategy strategy : fixed_strategies()) {
    const ContextPlan plan(one_document(7, 1, strategy));
    EXPECT_EQ(plan.padded_length(), 7);
    for (std::int32_t t = 0; t < 7; ++t) EXPECT_EQ(plan.tokens(0, 0)[static_cast<std::size_t>(t)], t);
  }
}

TEST(ContextPlan, PaddedLengthDependsOnLengthAndDevicesOnly) {
  for (const std::int64_t length : {1, 5, 6, 7, 1000, 4097}) {
    for (const ReorderStrategy strategy : fixed_strategies()) {
      EXPECT_EQ(ContextPlan(one_document(length, 3, strategy)).padded_length(), (length + 5) / 6 * 6);
    }
  }
}

TEST(ContextPlan, StripedDealsTokensAndStripesRoundRobin) {
  ContextPlanRequest request = one_document(12, 3, ReorderStrategy::striped);
  const auto second_device = [&](std::int64_t stripe) {
    request.stripe = stripe;
    const ContextPlan plan(request);
    return std::vector<std::int32_t>(plan.tokens(0, 1).begin(), plan.tokens(0, 1).end());
  };
  EXPECT_EQ(second_device(1), (std::vector<std::int32_t>{1, 4, 7, 10}));
  EXPECT_EQ(second_device(2), (std::vector<std::int32_t>{2, 3, 8, 9}));
  // One full stripe of three tokens per device, then a stripe of the one token that is left to each.
  EXPECT_EQ(second_device(3), (std::vector<std::int32_t>{3, 4, 5, 10}));
  EXPECT_EQ(second_device(99), (std::vector<std::int32_t>{4, 5, 6, 7}));
}

TEST(ContextPlan, HashIsEqualForEqualRequestsAndDiffersOtherwise) {
  ContextPlanRequest base;
  base.sequence_length = 48;
  base.document_lengths = {{20, 28}, {48}};
  base.attention_types = {{0, 2.0}, {8, 4.0}};
  base.context_parallelism = 3;
  base.reorder = ReorderStrategy::dual_chunk_swap;
  std::vector<ContextPlanRequest> different(11, base);
  different[0].sequence_length = 47;
  different[0].document_lengths = {{20, 27}, {47}};
  different[1].document_lengths = {{21, 27}, {48}};
  different[2].document_lengths = {{48}, {20, 28}};
  different[3].document_lengths = {{20, 27}, {48}};
  different[4].document_lengths = {{20, 28}};
  different[5].attention_types = {{0, 2.0}, {9, 4.0}};
  different[6].attention_types = {{0, 2.0}, {8, 5.0}};
  different[7].attention_types = {{8, 4.0}, {0, 2.0}};
  different[8].context_parallelism = 4;
  different[9].reorder = ReorderStrategy::none;
  different[10].reorder = ReorderStrategy::striped;
  std::set<std::uint64_t> hashes = {ContextPlan(base).hash()};
  EXPECT_EQ(ContextPlan(base).hash(), *hashes.begin());
  for (std::size_t i = 0; i < different.size(); ++i) {
    EXPECT_TRUE(hashes.insert(ContextPlan(different[i]).hash()).second) << "variant " << i;
  }
  ContextPlanRequest stripes = different[10];
  stripes.stripe = 2;
  EXPECT_TRUE(hashes.insert(ContextPlan(stripes).hash()).second);
}

template <typename Exception>
void expect_error(const ContextPlanRequest& request, const std::string& part) {
  try {
    const ContextPlan plan(request);
    ADD_FAILURE() << "accepted: " << describe(request);
  } catch (const Exception& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ContextPlanErrors, SettingsAreConfigErrors) {
  const ContextPlanRequest good = one_document(8, 2, ReorderStrategy::none);
  ContextPlanRequest bad = good;
  bad.sequence_length = 0;
  expect_error<ConfigError>(bad, "max_target_length) is 0");
  bad.sequence_length = 3'000'000'000;
  expect_error<ConfigError>(bad, "exceeds 2147483647 tokens");
  bad = good;
  bad.context_parallelism = 0;
  expect_error<ConfigError>(bad, "context parallelism is 0");
  bad = good;
  bad.stripe = 0;
  expect_error<ConfigError>(bad, "stripe has 0 tokens");
  bad = good;
  bad.attention_types.clear();
  expect_error<ConfigError>(bad, "no attention types");
  bad.attention_types = {{0, 1.0}, {-1, 1.0}};
  expect_error<ConfigError>(bad, "attention type 1 has window -1");
  bad.attention_types = {{0, -1.0}};
  expect_error<ConfigError>(bad, "attention type 0 has -1 layers");
}

TEST(ContextPlanErrors, DocumentsThatDoNotFitNameTheirRow) {
  ContextPlanRequest bad = one_document(8, 2, ReorderStrategy::none);
  bad.document_lengths = {};
  expect_error<Error>(bad, "no rows");
  bad.document_lengths = {{8}, {4, 5}};
  expect_error<Error>(bad, "row 1: documents 0..1 have more than the 8 tokens");
  bad.document_lengths = {{4, -1}};
  expect_error<Error>(bad, "row 0: document 1 has length -1");
  bad.document_lengths = {{4, std::numeric_limits<std::int64_t>::max()}};
  expect_error<Error>(bad, "row 0: documents 0..1");
}

TEST(ContextPlanErrors, IndicesOutOfRange) {
  const ContextPlan plan(one_document(8, 2, ReorderStrategy::none));
  EXPECT_THROW(plan.tokens(1, 0), Error);
  EXPECT_THROW(plan.tokens(0, 2), Error);
  EXPECT_THROW(plan.tokens(-1, 0), Error);
  EXPECT_THROW(plan.tokens(0, -1), Error);
  EXPECT_THROW(plan.gathered_slots(1), Error);
  EXPECT_THROW(plan.key_intervals(0, 0, 1), Error);
  EXPECT_THROW(plan.area(1), Error);
  EXPECT_THROW(plan.document_lengths(1), Error);
}

}  // namespace
}  // namespace maxtext
