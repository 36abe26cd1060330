#include "context/documents.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace maxtext {
namespace {

using Ids = std::vector<std::int32_t>;
using Lengths = std::vector<std::int64_t>;

TEST(ShiftTargets, StaysWithinDocuments) {
  const Ids ids = {10, 11, 12, 20, 30, 31, 99, 99};
  const ShiftedTargets shifted = shift_targets(ids, Lengths{3, 0, 1, 2});
  EXPECT_EQ(shifted.targets, (Ids{11, 12, 0, 0, 31, 0, 0, 0}));
  EXPECT_EQ(shifted.weights, (std::vector<float>{1, 1, 0, 0, 1, 0, 0, 0}));
}

TEST(ShiftTargets, WholeRowAndEmptyRow) {
  EXPECT_EQ(shift_targets(Ids{1, 2, 3}, Lengths{3}).targets, (Ids{2, 3, 0}));
  EXPECT_EQ(shift_targets(Ids{1, 2, 3}, Lengths{3}).weights, (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(shift_targets(Ids{1, 2}, Lengths{}).weights, (std::vector<float>{0, 0}));
  EXPECT_TRUE(shift_targets(Ids{}, Lengths{}).targets.empty());
}

TEST(ShiftTargets, DocumentsBeyondTheRowAreAnError) {
  EXPECT_THROW(shift_targets(Ids{1, 2, 3}, Lengths{2, 2}), Error);
  EXPECT_THROW(shift_targets(Ids{1, 2, 3}, Lengths{-1}), Error);
}

TEST(DocumentLengthsOf, CountsRuns) {
  EXPECT_EQ(document_lengths_of(Ids{1, 1, 2, 5, 5, 5, 0, 0}), (Lengths{2, 1, 3}));
  EXPECT_EQ(document_lengths_of(Ids{0, 0}), Lengths{});
  EXPECT_EQ(document_lengths_of(Ids{}), Lengths{});
  EXPECT_EQ(document_lengths_of(Ids{3}), Lengths{1});
}

void expect_error(const Ids& ids, const std::string& part) {
  try {
    document_lengths_of(ids);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(DocumentLengthsOf, ErrorsNameTheIndex) {
  expect_error({1, 2, 2, 1}, "index 3 returns to id 1");
  expect_error({1, 0, 2}, "index 2 has id 2 behind padding");
  expect_error({1, 0, 1}, "index 2 has id 1 behind padding");
  expect_error({0, 1}, "index 1 has id 1 behind padding");
  expect_error({1, -4}, "index 1 has id -4");
}

}  // namespace
}  // namespace maxtext
