#include "train/step_flops.h"

#include <gtest/gtest.h>

namespace maxtext {
namespace {

ModelShape small_shape(std::int64_t window) {
  ModelShape shape;
  shape.vocab_size = 32;
  shape.hidden_size = 16;
  shape.intermediate_size = 24;
  shape.layers = 2;
  shape.query_heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.layer_windows = {window, window};
  return shape;
}

TEST(StepFlops, WindowIsLinearInTheSequence) {
  const double at_1024 = step_flops(small_shape(64), 1, 1024).attention;
  const double at_2048 = step_flops(small_shape(64), 1, 2048).attention;
  const double at_4096 = step_flops(small_shape(64), 1, 4096).attention;
  EXPECT_DOUBLE_EQ(at_4096 - at_2048, 2 * (at_2048 - at_1024));
}

TEST(StepFlops, WindowLongerThanTheSequenceIsFull) {
  EXPECT_EQ(step_flops(small_shape(2000), 1, 1024).attention, step_flops(small_shape(0), 1, 1024).attention);
  EXPECT_EQ(step_flops(small_shape(1024), 1, 1024).attention, step_flops(small_shape(0), 1, 1024).attention);
}

TEST(StepFlops, BatchAndMicroBatchesScaleEverything) {
  const StepFlops one = step_flops(small_shape(0), 0.5, 128);
  const StepFlops many = step_flops(small_shape(0), 0.25, 128, 8);
  EXPECT_DOUBLE_EQ(many.learnable_weights, 4 * one.learnable_weights);
  EXPECT_DOUBLE_EQ(many.attention, 4 * one.attention);
}

}  // namespace
}  // namespace maxtext
