// Comparisons whose failure says which element is worst.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string_view>

namespace maxtext::testing {

/// True when |actual[i] − expected[i]| <= tolerance · max_j |expected[j]| for all i (maximum over finite elements).
/// Infinities must be equal, NaN never is. A failure reports the worst element: its index, both values, and the ratio
/// |difference| / maximum beside the tolerance.
::testing::AssertionResult all_close(std::span<const float> actual, std::span<const float> expected,
                                     double tolerance_relative_to_max, std::string_view name = "tensor");
::testing::AssertionResult all_close(std::span<const double> actual, std::span<const double> expected,
                                     double tolerance_relative_to_max, std::string_view name = "tensor");

/// max_i |a[i] − b[i]|; NaN if any difference is NaN. The sizes must be equal (throws Error).
double max_abs_difference(std::span<const float> a, std::span<const float> b);

/// True when every element has the same bits (so -0 differs from 0, and equal NaNs are equal); reports the first that
/// differs.
::testing::AssertionResult bitwise_equal(std::span<const float> actual, std::span<const float> expected,
                                         std::string_view name = "tensor");

}  // namespace maxtext::testing
