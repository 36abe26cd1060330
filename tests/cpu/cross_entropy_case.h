// A cross-entropy with tokens of weight 0, and what its formula gives in double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cpu/device.h"
#include "testing/compare.h"

namespace maxtext::testing {

using Doubles = std::vector<double>;

template <typename T>
std::vector<T> narrow(const Doubles& values) {
  return {values.begin(), values.end()};
}

struct CrossEntropyCase {
  std::int64_t tokens = 0, width = 0, vocabulary = 0;
  Doubles hidden, weight, destination;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
  float inverse_denominator = 0.125F;
};

inline CrossEntropyCase make_case(std::int64_t tokens, std::int64_t width, std::int64_t vocabulary) {
  CrossEntropyCase c{tokens,
                     width,
                     vocabulary,
                     random_values<double>(tokens * width, 1),
                     random_values<double>(vocabulary * width, 2),
                     random_values<double>(vocabulary * width, 3),
                     {},
                     {}};
  for (std::int64_t t = 0; t < tokens; ++t) {
    c.targets.push_back(static_cast<std::int32_t>(t * 7 % vocabulary));
    c.weights.push_back(t % 3 == 1 ? 0.0F : 0.5F + static_cast<float>(t % 2));
  }
  return c;
}

/// The inputs of LinearCrossEntropy, without the destination of the weight's gradient.
template <typename T>
std::vector<Tensor> case_inputs(Engine& engine, const CrossEntropyCase& c) {
  return {put(engine, {c.tokens, c.width}, narrow<T>(c.hidden)),
          put(engine, {c.vocabulary, c.width}, narrow<T>(c.weight)), put(engine, {c.tokens}, c.targets),
          put(engine, {c.tokens}, c.weights), put(engine, {}, std::vector<float>{c.inverse_denominator})};
}

/// sums, nll, dhidden, destination.
template <typename T>
std::vector<Tensor> run_case(Engine& engine, const CrossEntropyCase& c, const LinearCrossEntropy& op) {
  std::vector<Tensor> inputs = case_inputs<T>(engine, c);
  if (op.with_gradient) inputs.push_back(put(engine, {c.vocabulary, c.width}, narrow<T>(c.destination)));
  return engine.apply(op, inputs);
}

struct Expected {
  Doubles sums{0, 0}, nll, dhidden, dweight;
};

inline Expected reference(const CrossEntropyCase& c, double z_multiplier, double softcap = 0) {
  Expected e;
  e.dhidden.assign(c.hidden.size(), 0);
  e.dweight.assign(c.weight.size(), 0);
  const auto width = static_cast<std::size_t>(c.width), vocabulary = static_cast<std::size_t>(c.vocabulary);
  for (std::size_t t = 0; t < c.targets.size(); ++t) {
    const double w = c.weights[t];
    if (w == 0) {
      e.nll.push_back(0);
      continue;
    }
    Doubles logits(vocabulary, 0.0);
    Doubles slope(vocabulary, 1.0);
    double sum = 0;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      for (std::size_t i = 0; i < width; ++i) logits[v] += c.hidden[t * width + i] * c.weight[v * width + i];
      if (softcap > 0) {
        const double tangent = std::tanh(logits[v] / softcap);
        logits[v] = softcap * tangent;
        slope[v] = 1 - tangent * tangent;
      }
      sum += std::exp(logits[v]);
    }
    const double lse = std::log(sum);
    const auto target = static_cast<std::size_t>(c.targets[t]);
    e.nll.push_back(lse - logits[target]);
    e.sums[0] += w * e.nll.back();
    e.sums[1] += w * z_multiplier * lse * lse;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      double dlogit = std::exp(logits[v]) / sum * (1 + 2 * z_multiplier * lse) - (v == target ? 1 : 0);
      dlogit *= slope[v] * w * static_cast<double>(c.inverse_denominator);
      for (std::size_t i = 0; i < width; ++i) {
        e.dhidden[t * width + i] += dlogit * c.weight[v * width + i];
        e.dweight[v * width + i] += dlogit * c.hidden[t * width + i];
      }
    }
  }
  return e;
}

template <typename T>
void expect_reference(const std::vector<Tensor>& found, Engine& engine, const CrossEntropyCase& c, const Expected& e,
                      double tolerance) {
  const auto close = [&](const Tensor& tensor, const Doubles& expected, double within, std::string_view name) {
    const std::vector<T> values = get<T>(engine, tensor);
    const Doubles actual(values.begin(), values.end());
    EXPECT_TRUE(all_close(std::span<const double>(actual), std::span<const double>(expected), within, name));
  };
  const Doubles sums = get<double>(engine, found[0]);
  EXPECT_TRUE(all_close(std::span<const double>(sums), std::span<const double>(e.sums), tolerance, "sums"));
  const std::vector<float> nll = get<float>(engine, found[1]);
  const Doubles wide_nll(nll.begin(), nll.end());
  EXPECT_TRUE(all_close(std::span<const double>(wide_nll), std::span<const double>(e.nll), 1e-6, "nll"));
  if (found.size() == 2) return;
  Doubles total = e.dweight;
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += c.destination[i];
  close(found[2], e.dhidden, tolerance, "dhidden");
  close(found[3], total, tolerance, "destination");
}

}  // namespace maxtext::testing
