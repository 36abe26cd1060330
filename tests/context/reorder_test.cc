#include "context/reorder.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace maxtext {
namespace {

TEST(ReorderStrategy, NamesAreMaxTexts) {
  for (const char* name : {"none", "dual_chunk_swap", "striped", "balanced", "auto"}) {
    EXPECT_EQ(reorder_strategy_name(parse_reorder_strategy(name)), name);
  }
  try {
    parse_reorder_strategy("zigzag");
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "context_parallel_reorder_strategy: 'zigzag' is not one of none, dual_chunk_swap, striped, balanced, auto");
  }
}

TEST(ChunkGrid, ShortChunksLieAtTheTail) {
  const ChunkGrid grid{10, 2, 4};
  EXPECT_EQ(grid.chunks(), 6);
  EXPECT_EQ(grid.starts(), (std::vector<std::int64_t>{0, 4, 8, 12, 16, 18, 20}));
}

TEST(DealFixed, RefusesWhatItCannotDeal) {
  EXPECT_THROW(deal_fixed(ReorderStrategy::dual_chunk_swap, 5, 2, 1), Error);
  EXPECT_THROW(deal_fixed(ReorderStrategy::balanced, 4, 2, 1), Error);
  EXPECT_THROW(deal_fixed(ReorderStrategy::automatic, 4, 2, 1), Error);
}

}  // namespace
}  // namespace maxtext
