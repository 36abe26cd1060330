#include "tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Shape, GrowsAndShrinksAnywhere) {
  Shape shape = {2, 3};
  shape.insert(shape.begin(), 1);
  shape.insert(shape.begin() + 2, 7);
  shape.push_back(4);
  EXPECT_THAT(shape, ElementsAre(1, 2, 7, 3, 4));
  shape.erase(shape.begin() + 2);
  shape.erase(shape.begin());
  EXPECT_THAT(shape, ElementsAre(2, 3, 4));
  shape.erase(shape.end() - 1);
  EXPECT_EQ(shape, (Shape{2, 3}));
  EXPECT_EQ(shape.back(), 3);
}

TEST(Shape, EqualityIsOfTheSizesInUse) {
  Shape shape = {2, 3, 4};
  shape.erase(shape.end() - 1);
  EXPECT_EQ(shape, (Shape{2, 3}));
  EXPECT_NE(shape, (Shape{2, 3, 0}));
  EXPECT_NE(shape, (Shape{3, 2}));
  EXPECT_EQ(Shape(), Shape{});
}

TEST(Shape, MoreDimensionsThanItHoldsAreAnError) {
  Shape shape(std::vector<std::int64_t>(Shape::kMostDimensions, 1));
  EXPECT_EQ(shape.size(), Shape::kMostDimensions);
  EXPECT_THAT([&] { shape.push_back(1); }, ThrowsMessage<Error>(HasSubstr("a tensor of 9 dimensions")));
  EXPECT_EQ(shape.size(), Shape::kMostDimensions) << "changed by what failed";
  EXPECT_THAT([] { Shape(std::vector<std::int64_t>(12, 1)); }, ThrowsMessage<Error>(HasSubstr("12 dimensions")));
  EXPECT_THAT([&] { shape.at(8); }, ThrowsMessage<Error>(HasSubstr("no dimension 8")));
}

}  // namespace
}  // namespace maxtext
