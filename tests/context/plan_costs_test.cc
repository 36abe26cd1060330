#include "context/plan_costs.h"

#include <gtest/gtest.h>

#include "context/request_cases.h"

namespace maxtext {
namespace {

TEST(PlanCosts, AttentionFlopsByHand) {
  ContextPlanRequest request = testing::one_document(8, 2, ReorderStrategy::none);
  request.attention_types = {{0, 2.0}, {1, 3.0}};
  // Full: 1+2+3+4 = 10 and 5+6+7+8 = 26 pairs in two layers; window 1: 4 and 4 in three.
  const AttentionFlops flops = attention_flops(ContextPlan(request), {8, 2, 64, 2});
  EXPECT_EQ(flops.forward, (std::vector<double>{4.0 * 32 * 8 * 64, 4.0 * 64 * 8 * 64}));
  EXPECT_EQ(flops.backward, (std::vector<double>{10.0 * 32 * 8 * 64, 10.0 * 64 * 8 * 64}));
}

TEST(PlanCosts, AllGatherBytesByHand) {
  ContextPlanRequest request = testing::one_document(16, 4, ReorderStrategy::dual_chunk_swap);
  request.document_lengths = {{16}, {9, 3}};
  // Keys and values of 2 rows × 4 slots × 2 heads × 64 to 3 other devices.
  const AllGatherBytes bytes = all_gather_bytes(ContextPlan(request), {8, 2, 64, 2});
  EXPECT_EQ(bytes.forward_all_gather, 3 * 2 * 4 * 2 * 64 * 2 * 2);
  EXPECT_EQ(bytes.backward_all_gather, 3 * 2 * 4 * 2 * 64 * 2 * 2);
  EXPECT_EQ(bytes.backward_reduce_scatter, 3 * 2 * 4 * 2 * 64 * 2 * 4);
}

TEST(PlanCosts, OneDeviceSendsNothing) {
  const AllGatherBytes bytes = all_gather_bytes(ContextPlan(testing::one_document(9, 1, ReorderStrategy::none)), {});
  EXPECT_EQ(bytes.forward_all_gather + bytes.backward_all_gather + bytes.backward_reduce_scatter, 0);
}

}  // namespace
}  // namespace maxtext
