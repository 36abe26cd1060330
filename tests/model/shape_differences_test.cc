#include "model/shape_differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

ModelShape shape() {
  ModelShape shape;
  shape.layers = 4;
  shape.layer_windows = {0, 16, 0, 16};
  return shape;
}

/// The only difference that `change` makes.
template <typename Change>
ShapeDifference difference(Change change) {
  ModelShape other = shape();
  change(other);
  const std::vector<ShapeDifference> list = shape_differences(shape(), other);
  EXPECT_EQ(list.size(), 1U);
  return list.empty() ? ShapeDifference() : list.front();
}

TEST(ShapeDifferences, TheSameModelHasNone) {
  EXPECT_THAT(shape_differences(shape(), shape()), IsEmpty());
  ModelShape longer = shape();
  longer.max_position_embeddings = 1 << 20;
  EXPECT_THAT(shape_differences(shape(), longer), IsEmpty()) << "no result depends on it";
}

TEST(ShapeDifferences, WhatTensorsTellIsToldApart) {
  const ShapeDifference width = difference([](ModelShape& other) { other.hidden_size = 64; });
  EXPECT_TRUE(width.in_tensors);
  EXPECT_EQ(width.name, "hidden_size");
  EXPECT_EQ(width.found, "0");
  EXPECT_EQ(width.wanted, "64");
  EXPECT_EQ(width.keys.front(), "base_emb_dim");
  EXPECT_TRUE(difference([](ModelShape& other) { other.tie_word_embeddings = true; }).in_tensors);
  EXPECT_FALSE(difference([](ModelShape& other) { other.rope.theta = 5e5; }).in_tensors);
}

TEST(ShapeDifferences, NothingThatChangesResultsIsPassedOver) {
  const auto key_of = [](auto change) { return std::string(difference(change).keys.front()); };
  EXPECT_EQ(key_of([](ModelShape& other) { other.family = "mistral"; }), "decoder_block");
  EXPECT_EQ(key_of([](ModelShape& other) { other.rms_norm_eps = 1e-6; }), "normalization_layer_epsilon");
  EXPECT_EQ(key_of([](ModelShape& other) { other.query_scale = 1; }), "query_scale");
  EXPECT_EQ(key_of([](ModelShape& other) { other.attention_softcap = 50; }), "attn_logits_soft_cap");
  EXPECT_EQ(key_of([](ModelShape& other) { other.final_softcap = 30; }), "final_logits_soft_cap");
  EXPECT_EQ(key_of([](ModelShape& other) { other.rope.theta = 5e5; }), "rope_max_timescale");
  EXPECT_EQ(key_of([](ModelShape& other) { other.local_rope = RopeShape{}; }), "local_rope_max_timescale");
  const ShapeDifference scaling = difference([](ModelShape& other) {
    other.rope.type = RopeType::linear;
    other.rope.factor = 2;
  });
  EXPECT_EQ(scaling.keys.front(), "rope_type");
  EXPECT_EQ(scaling.wanted, R"({"rope_type":"linear","factor":2.0})");
}

TEST(ShapeDifferences, WindowsAreComparedInTheLayersThatBothHave) {
  const ShapeDifference window = difference([](ModelShape& other) { other.layer_windows = {0, 16, 8, 8}; });
  EXPECT_EQ(window.name, "sliding_window (layer 2)");
  EXPECT_EQ(window.wanted, "8");
  ModelShape deeper = shape();
  deeper.layers = 5;
  deeper.layer_windows.push_back(0);
  EXPECT_THAT(shape_differences(shape(), deeper),
              ElementsAre(AllOf(Field(&ShapeDifference::name, "num_hidden_layers"),
                                Field(&ShapeDifference::keys, Contains("base_num_decoder_layers")))));
}

}  // namespace
}  // namespace maxtext
