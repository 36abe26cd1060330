// Spellings are those of the StableHLO specification; on a plugin they are proven by the other tests.
#include "engines/xla/stablehlo_writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace maxtext {
namespace {

XlaValue argument(Shape shape, DType dtype = DType::float32) { return {"%arg0", {std::move(shape), dtype}}; }

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(StableHloWriter, WritesOneLinePerOperation) {
  StableHloWriter writer;
  const XlaValue x = argument({2, 3});
  const XlaValue sum = writer.reduce("add", writer.binary("multiply", x, x), {1});
  writer.broadcast(sum, {2, 3}, {0});
  EXPECT_EQ(writer.body(),
            "  %0 = stablehlo.multiply %arg0, %arg0 : tensor<2x3xf32>\n"
            "  %1 = stablehlo.constant dense<0.00000000000000000e+00> : tensor<f32>\n"
            "  %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : "
            "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
            "  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>\n");
}

TEST(StableHloWriter, InfersShapesOfProducts) {
  StableHloWriter writer;
  const XlaValue q = argument({2, 5, 3, 4, 8});
  const XlaValue k = argument({2, 7, 3, 8});
  EXPECT_EQ(writer.dot(q, k, {{0, 2}, {0, 2}, {4}, {3}}).spec.shape, (Shape{2, 3, 5, 4, 7}));
  EXPECT_EQ(writer.dot(argument({2, 5, 3}), argument({2, 5, 4}), {{}, {}, {0, 1}, {0, 1}}).spec.shape, (Shape{3, 4}));
}

TEST(StableHloWriter, GroupsOfCollectivesAreRows) {
  EXPECT_EQ(replica_groups_text({{0, 2}, {1, 3}}), "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>");
  EXPECT_THROW(replica_groups_text({{0, 1}, {2}}), Error);
}

TEST(StableHloWriter, LiteralsKeepEveryBit) {
  for (const double value : {0.1, 1e-300, -1.0 / 3, 1e300}) {
    EXPECT_EQ(std::stod(literal(value, DType::float64)), value);
  }
  EXPECT_EQ(literal(-std::numeric_limits<double>::infinity(), DType::float32), "0xFF800000");
  EXPECT_EQ(literal(-std::numeric_limits<double>::infinity(), DType::bfloat16), "0xFF80");
  EXPECT_EQ(literal(-std::numeric_limits<double>::infinity(), DType::float16), "0xFC00");
  EXPECT_EQ(literal(std::numeric_limits<double>::infinity(), DType::float64), "0x7FF0000000000000");
  EXPECT_EQ(literal(std::numeric_limits<double>::quiet_NaN(), DType::bfloat16), "0x7FC0");
  EXPECT_EQ(literal(7, DType::int32), "7");
  EXPECT_THROW(literal(std::numeric_limits<double>::infinity(), DType::int32), Error);
  EXPECT_THROW(literal(0.5, DType::int32), Error);
}

TEST(StableHloWriter, RefusesWhatDoesNotFit) {
  StableHloWriter writer;
  const XlaValue x = argument({2, 3});
  EXPECT_EQ(error_of([&] {
              writer.binary("add", x, argument({3, 2}));
            }),
            "StableHLO add(float32[2, 3], float32[3, 2]): both operands must have one type");
  EXPECT_THROW(writer.reshape(x, {5}), Error);
  EXPECT_THROW(writer.broadcast(x, {2, 4}, {0, 1}), Error);
  EXPECT_THROW(writer.transpose(x, {0, 0}), Error);
  EXPECT_THROW(writer.slice(x, {0, 0}, {2, 4}), Error);
  EXPECT_THROW(writer.concatenate(std::vector<XlaValue>{x, argument({3, 3})}, 1), Error);
  EXPECT_THROW(writer.update_slice(x, argument({2, 2}), {0, 2}), Error);
  EXPECT_THROW(writer.dot(x, argument({2, 3}), {{}, {}, {1}, {0}}), Error);
  EXPECT_THROW(writer.reduce("add", x, {2}), Error);
  EXPECT_THROW(writer.select(x, x, x), Error);
  EXPECT_THROW(writer.unary("log", argument({2}, DType::int32)), Error);
  EXPECT_THROW(writer.reduce_scatter(argument({3}), {{0, 1}}), Error);
  EXPECT_THROW(writer.scatter_add_rows(x, argument({4}, DType::int32), argument({4, 2})), Error);
}

TEST(StableHloWriter, WritesLoopsWithTheirRegions) {
  StableHloWriter writer;
  const XlaValue zero = writer.constant({{}, DType::int32}, 0);
  const XlaValue end = writer.constant({{}, DType::int32}, 3);
  const XlaValue x = argument({4});
  const std::vector<XlaValue> initial = {x};
  const std::vector<XlaValue> last =
      writer.for_loop(zero, end, initial, [&](const XlaValue&, std::span<const XlaValue> values) {
        return std::vector<XlaValue>{writer.binary("add", values[0], x)};
      });
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].spec, x.spec);
  EXPECT_EQ(writer.body(),
            "  %0 = stablehlo.constant dense<0> : tensor<i32>\n"
            "  %1 = stablehlo.constant dense<3> : tensor<i32>\n"
            "  %8:2 = stablehlo.while(%b2 = %0, %b3 = %arg0) : tensor<i32>, tensor<4xf32>\n"
            "  cond {\n"
            "  %4 = stablehlo.compare LT, %b2, %1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "  stablehlo.return %4 : tensor<i1>\n"
            "  } do {\n"
            "  %5 = stablehlo.add %b3, %arg0 : tensor<4xf32>\n"
            "  %6 = stablehlo.constant dense<1> : tensor<i32>\n"
            "  %7 = stablehlo.add %b2, %6 : tensor<i32>\n"
            "  stablehlo.return %7, %5 : tensor<i32>, tensor<4xf32>\n"
            "  }\n");
  EXPECT_EQ(last[0].name, "%8#1");
}

TEST(StableHloWriter, ScatterChecksPlacesAndUpdates) {
  StableHloWriter writer;
  const XlaValue base = writer.constant({{2, 3, 5}, DType::float32}, 0);
  const XlaValue places = writer.constant({{4, 2}, DType::int32}, 0);
  const XlaValue updates = writer.constant({{4, 3}, DType::float32}, 1);
  EXPECT_EQ(writer.scatter_replace(base, places, {0, 2}, updates).spec, base.spec);
  EXPECT_NE(writer.body().find("update_window_dims = [1], inserted_window_dims = [0, 2], "
                               "scatter_dims_to_operand_dims = [0, 2], index_vector_dim = 1"),
            std::string::npos)
      << writer.body();
  EXPECT_EQ(error_of([&] {
              writer.scatter_replace(base, places, {0, 1}, updates);
            }),
            "StableHLO scatter(float32[2, 3, 5], int32[4, 2], float32[4, 3]): the updates should be float32[4, 5]");
  EXPECT_EQ(error_of([&] { writer.scatter_replace(base, places, {0}, updates); }),
            "StableHLO scatter(float32[2, 3, 5], int32[4, 2], float32[4, 3]): expected one integer per dimension [0]");
}

TEST(StableHloWriter, RefusesLoopsWhoseValuesChangeTheirType) {
  StableHloWriter writer;
  const XlaValue x = argument({4});
  const std::vector<XlaValue> initial = {x};
  const auto condition = [&](std::span<const XlaValue>) { return writer.constant({{}, DType::boolean}, 1); };
  EXPECT_EQ(error_of([&] {
              writer.while_loop(initial, condition, [&](std::span<const XlaValue> values) {
                return std::vector<XlaValue>{writer.reshape(values[0], {2, 2})};
              });
            }),
            "StableHLO while: value 0 is float32[4] at first and float32[2, 2] after its body");
  EXPECT_EQ(error_of([&] { writer.dynamic_slice(x, initial, {2}); }),
            "StableHLO dynamic_slice(float32[4]): expected one integer scalar of one dtype per dimension, got "
            "(tensor<4xf32>)");
}

}  // namespace
}  // namespace maxtext
