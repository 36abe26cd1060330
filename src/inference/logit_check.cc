#include "inference/logit_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::size_t kTop = 10;

/// A NaN without a sign, which would be printed.
template <typename T>
T unsigned_nan(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

/// max(a, b) that keeps a NaN.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

std::vector<double> log_softmax(std::span<const float> logits) {
  const double maximum = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - maximum);
  const double normaliser = maximum + std::log(sum);
  std::vector<double> result(logits.begin(), logits.end());
  for (double& value : result) value -= normaliser;
  return result;
}

double divergence(std::span<const float> golden, std::span<const float> actual, double clip_epsilon) {
  const std::vector<double> p = log_softmax(golden);
  const std::vector<double> q = log_softmax(actual);
  const double floor = clip_epsilon > 0 ? std::log(clip_epsilon) : -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double probability = std::exp(std::max(p[i], floor));
    if (probability == 0) continue;  // a limit of 0, whatever q is
    sum += probability * (std::max(p[i], floor) - std::max(q[i], floor));
  }
  return unsigned_nan(sum);
}

/// A NaN stands first: it is what is wrong, and an order needs a place for it.
std::vector<RankedToken> top(std::span<const float> logits) {
  const auto rank = [&](std::int32_t id) {
    const float logit = logits[static_cast<std::size_t>(id)];
    return std::isnan(logit) ? std::numeric_limits<float>::infinity() : logit;
  };
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const std::size_t count = std::min(kTop, ids.size());
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(count), [&](std::int32_t a, std::int32_t b) {
    const float x = rank(a);
    const float y = rank(b);
    return x != y ? x > y : a < b;
  });
  std::vector<RankedToken> result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back({ids[i], unsigned_nan(logits[static_cast<std::size_t>(ids[i])])});
  return result;
}

}  // namespace

double LogitComparison::max_kl() const {
  double largest = 0;
  for (const double value : kl) largest = worse(value, largest);
  return largest;
}

LogitComparison compare_logits(std::span<const float> golden, std::span<const float> actual, std::int64_t vocab_size,
                               double rtol, double clip_epsilon) {
  const auto vocab = static_cast<std::size_t>(vocab_size);
  if (vocab == 0 || golden.empty() || golden.size() != actual.size() || golden.size() % vocab != 0) {
    fail("{} golden logits, {} others and a vocabulary of {} do not fit together", golden.size(), actual.size(),
         vocab_size);
  }
  LogitComparison result;
  result.max_excess = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - static_cast<double>(golden[i]));
    const double size = std::abs(static_cast<double>(golden[i]));
    if (worse(difference, result.max_abs_difference) != result.max_abs_difference) {
      result.worst_position = static_cast<std::int64_t>(i / vocab);
    }
    result.max_abs_difference = worse(difference, result.max_abs_difference);
    if (size > 0) result.max_rel_difference = worse(difference / size, result.max_rel_difference);
    result.max_excess = worse(difference - rtol * size, result.max_excess);
  }
  for (std::size_t row = 0; row < golden.size() / vocab; ++row) {
    result.kl.push_back(
        divergence(golden.subspan(row * vocab, vocab), actual.subspan(row * vocab, vocab), clip_epsilon));
    const double worst = result.kl[static_cast<std::size_t>(result.worst_kl_position)];
    if (std::isnan(result.kl.back()) || result.kl.back() > worst) {
      result.worst_kl_position = static_cast<std::int64_t>(row);
    }
  }
  result.golden_top = top(golden.last(vocab));
  result.actual_top = top(actual.last(vocab));
  return result;
}

}  // namespace maxtext
