#include "train/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace maxtext {

namespace {

/// What is not a number prints without a sign, which depends on how it came about.
double printable(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

}  // namespace

void set_rates(StepMetrics& metrics, double tokens_per_device, double flops_per_device) {
  const double seconds = metrics.step_time_seconds;
  metrics.tokens_per_second_per_device = seconds > 0 ? tokens_per_device / seconds : 0.0;
  metrics.tflops_per_second_per_device = seconds > 0 ? flops_per_device / seconds / 1e12 : 0.0;
}

std::string step_line(const StepMetrics& metrics) {
  return fmt::format(
      "completed step: {}, seconds: {:.3f}, TFLOP/s/device: {:.3f}, Tokens/s/device: {:.3f}, total_weights: {}, "
      "loss: {:.3f}, grad_norm: {:.3f}, learning_rate: {:.3e}",
      metrics.step, metrics.step_time_seconds, metrics.tflops_per_second_per_device,
      metrics.tokens_per_second_per_device, metrics.total_weights, printable(metrics.loss),
      printable(metrics.grad_norm), metrics.learning_rate);
}

std::string eval_line(std::int64_t step, double loss, std::int64_t total_weights) {
  return fmt::format("Completed eval after train step {}, loss={:.3f}, perplexity={:.3f}, total_weights={}", step,
                     printable(loss), std::exp(printable(loss)), total_weights);
}

std::string metrics_json(const StepMetrics& metrics) {
  nlohmann::ordered_json line;
  line["step"] = metrics.step;
  line["loss"] = metrics.loss;
  line["total_weights"] = metrics.total_weights;
  line["grad_norm"] = metrics.grad_norm;
  line["learning_rate"] = metrics.learning_rate;
  line["step_time_seconds"] = metrics.step_time_seconds;
  line["tokens_per_second_per_device"] = metrics.tokens_per_second_per_device;
  line["tflops_per_second_per_device"] = metrics.tflops_per_second_per_device;
  line["peak_memory_bytes"] = metrics.peak_memory_bytes;
  return line.dump();
}

}  // namespace maxtext
