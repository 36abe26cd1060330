// dual_chunk_swap against MaxText's own permutations.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "context/context_plan.h"
#include "context/request_cases.h"
#include "testing/fixtures.h"

namespace maxtext {
namespace {

nlohmann::json fixture() {
  const auto path = testing::fixture_root() / "maxtext" / "reorder.json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return nlohmann::json::parse(file);
}

ContextPlan plan_of(const nlohmann::json& entry) {
  return ContextPlan(testing::one_document(entry.at("seq").get<std::int64_t>(), entry.at("cp").get<int>(),
                                           ReorderStrategy::dual_chunk_swap));
}

std::vector<std::int32_t> permutation(const ContextPlan& plan) {
  std::vector<std::int32_t> all;
  for (int device = 0; device < plan.context_parallelism(); ++device) {
    const auto tokens = plan.tokens(0, device);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

TEST(ReorderGolden, SamePermutationAsMaxText) {
  const nlohmann::json golden = fixture();
  ASSERT_FALSE(golden.at("cases").empty());
  for (const auto& entry : golden.at("cases")) {
    SCOPED_TRACE(entry.dump());
    const ContextPlan plan = plan_of(entry);
    EXPECT_EQ(permutation(plan), entry.at("permutation").get<std::vector<std::int32_t>>());
    const auto inverse = plan.gathered_slots(0);
    EXPECT_EQ(std::vector<std::int32_t>(inverse.begin(), inverse.end()),
              entry.at("inverse").get<std::vector<std::int32_t>>());
  }
}

TEST(ReorderGolden, WhatMaxTextRejectsIsPaddedAndCoveredOnce) {
  const nlohmann::json golden = fixture();
  ASSERT_FALSE(golden.at("rejected").empty());
  for (const auto& entry : golden.at("rejected")) {
    SCOPED_TRACE(entry.dump());
    const ContextPlan plan = plan_of(entry);
    EXPECT_GE(plan.padded_length(), entry.at("seq").get<std::int64_t>());
    std::vector<std::int32_t> all = permutation(plan);
    std::sort(all.begin(), all.end());
    ASSERT_EQ(static_cast<std::int64_t>(all.size()), plan.padded_length());
    for (std::size_t t = 0; t < all.size(); ++t) EXPECT_EQ(all[t], static_cast<std::int32_t>(t));
  }
}

}  // namespace
}  // namespace maxtext
