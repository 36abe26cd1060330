#include "testing/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace maxtext::testing {
namespace {

::testing::AssertionResult different_sizes(std::string_view name, std::size_t actual, std::size_t expected) {
  return ::testing::AssertionFailure() << fmt::format("{}: {} elements, expected {}", name, actual, expected);
}

/// Equal infinities differ by 0; anything else that involves a NaN or an infinity differs infinitely.
double difference(double actual, double expected) {
  if (actual == expected) return 0;
  const double distance = std::abs(actual - expected);
  return std::isfinite(distance) ? distance : std::numeric_limits<double>::infinity();
}

template <typename Real>
::testing::AssertionResult all_close_of(std::span<const Real> actual, std::span<const Real> expected, double tolerance,
                                        std::string_view name) {
  if (actual.size() != expected.size()) return different_sizes(name, actual.size(), expected.size());
  double maximum = 0;
  double worst = 0;
  std::size_t worst_index = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isfinite(expected[i])) maximum = std::max(maximum, std::abs(static_cast<double>(expected[i])));
    const double distance = difference(actual[i], expected[i]);
    if (distance > worst) {
      worst = distance;
      worst_index = i;
    }
  }
  if (worst <= tolerance * maximum) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << fmt::format(
             "{}: element {} of {} is {:.9g}, expected {:.9g}; |difference| / max|expected| = {:.3g}, allowed {:.3g}",
             name, worst_index, actual.size(), actual[worst_index], expected[worst_index], worst / maximum, tolerance);
}

}  // namespace

::testing::AssertionResult all_close(std::span<const float> actual, std::span<const float> expected,
                                     double tolerance_relative_to_max, std::string_view name) {
  return all_close_of(actual, expected, tolerance_relative_to_max, name);
}

::testing::AssertionResult all_close(std::span<const double> actual, std::span<const double> expected,
                                     double tolerance_relative_to_max, std::string_view name) {
  return all_close_of(actual, expected, tolerance_relative_to_max, name);
}

double max_abs_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) fail("max_abs_difference of {} and {} elements", a.size(), b.size());
  double maximum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(distance)) return distance;
    maximum = std::max(maximum, distance);
  }
  return maximum;
}

::testing::AssertionResult bitwise_equal(std::span<const float> actual, std::span<const float> expected,
                                         std::string_view name) {
  if (actual.size() != expected.size()) return different_sizes(name, actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(actual[i]) == std::bit_cast<std::uint32_t>(expected[i])) continue;
    return ::testing::AssertionFailure() << fmt::format("{}: element {} of {} is {:.9g} ({:a}), expected {:.9g} ({:a})",
                                                        name, i, actual.size(), actual[i], actual[i], expected[i],
                                                        expected[i]);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace maxtext::testing
