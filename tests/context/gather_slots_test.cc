#include "context/gather_slots.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "context/request_cases.h"

namespace maxtext {
namespace {

TEST(GatherSlots, FollowsThePlanAndFillsPadding) {
  const ContextPlan plan(testing::one_document(6, 2, ReorderStrategy::dual_chunk_swap));
  ASSERT_EQ(plan.padded_length(), 8);
  const std::vector<std::int32_t> ids = {10, 11, 12, 13, 14, 15};
  EXPECT_EQ(gather_slots(plan, 0, 0, ids, -1), (std::vector<std::int32_t>{10, 11, -1, -1}));
  EXPECT_EQ(gather_slots(plan, 0, 1, ids, -1), (std::vector<std::int32_t>{12, 13, 14, 15}));
  const std::vector<float> weights = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(gather_slots(plan, 0, 0, weights, -1.0F), (std::vector<float>{0, 1, 6, 7}));
}

TEST(ScatterSlots, RestoresTheOriginalOrder) {
  for (const ReorderStrategy strategy : testing::fixed_strategies()) {
    ContextPlanRequest request = testing::one_document(37, 3, strategy);
    request.document_lengths = {{30, 7}, {5, 20}};
    const ContextPlan plan(request);
    for (const bool padded : {false, true}) {
      const std::int64_t tokens = padded ? plan.padded_length() : plan.sequence_length();
      std::vector<float> values(static_cast<std::size_t>(tokens));
      std::iota(values.begin(), values.end(), 1.0F);
      std::vector<float> restored(static_cast<std::size_t>(2 * tokens), 0.0F);
      for (int device = 0; device < 3; ++device) {
        std::vector<float> pairs;
        for (const float value : gather_slots(plan, 1, device, values, -1.0F))
          pairs.insert(pairs.end(), {value, -value});
        scatter_slots(plan, 1, device, pairs, 2, restored);
      }
      for (std::size_t t = 0; t < values.size(); ++t) {
        ASSERT_EQ(restored[2 * t], values[t]);
        ASSERT_EQ(restored[2 * t + 1], -values[t]);
      }
    }
  }
}

TEST(GatherSlots, WrongSizesAreErrors) {
  const ContextPlan plan(testing::one_document(6, 2, ReorderStrategy::none));
  std::vector<float> seven(7);
  std::vector<float> six(6);
  EXPECT_THROW(gather_slots(plan, 0, 0, seven, 0.0F), Error);
  EXPECT_THROW(scatter_slots(plan, 0, 0, seven, 1, six), Error);
  EXPECT_THROW(scatter_slots(plan, 0, 0, six, 0, six), Error);
  EXPECT_THROW(gather_slots(plan, 1, 0, six, 0.0F), Error);
}

}  // namespace
}  // namespace maxtext
