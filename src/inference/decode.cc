#include "inference/decode.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/seconds_since.h"
#include "mesh/thread_transport.h"
#include "train/memory_use.h"

namespace maxtext {
namespace {

using Clock = std::chrono::steady_clock;

/// Every device asks at the same places, and device 0's answer counts for all.
std::function<bool()> agreed(Engine& engine, const std::function<bool()>& ask) {
  const int devices = engine.mesh().device_count();
  if (devices == 1 || !ask) return ask;
  return [&engine, devices, ask] {
    const std::int32_t mine = engine.device() == 0 && ask() ? 1 : 0;
    const Tensor flag = engine.input({{1}, DType::int32}, std::as_bytes(std::span(&mine, 1)));
    const Tensor all = engine.apply_one(AllGather{.axes = kTensorAxes | Axis::context, .group_size = devices}, {flag});
    std::vector<std::int32_t> flags(static_cast<std::size_t>(devices));
    engine.read(all, std::as_writable_bytes(std::span(flags)));
    return flags.front() != 0;
  };
}

InferenceWeights make_weights(Engine& engine, const DecodeSetup& setup) {
  if (setup.files.weights == nullptr) return {engine, setup.files.shape, setup.weights_seed};
  return {engine, setup.files.shape, *setup.files.weights};
}

}  // namespace

DecodeReport decode(const DecodeSetup& setup, const DecodeEnvironment& environment, const TextListener& listener) {
  const Clock::time_point start = Clock::now();
  ThreadTransport transport{setup.mesh};
  DecodeReport report;
  std::atomic<std::int64_t> cache_bytes = 0;
  // Of one device of each that share the heads.
  std::atomic<std::int64_t> weight_bytes = 0;
  std::atomic<std::int64_t> weight_bytes_per_step = 0;
  run_on_devices(transport, environment, [&](Engine& engine) {
    const int device = engine.device();
    const InferenceWeights weights = make_weights(engine, setup);
    CachedModel model(engine, setup.files.shape, weights, setup.model);
    if (device == 0) report.load_seconds = seconds_since(start);
    TextListener own_listener;
    if (device == 0) own_listener = listener;
    own_listener.cancel = agreed(engine, listener.cancel);
    TextOutcome outcome = generate_text(model, *setup.tokenizer, setup.requests, own_listener);
    cache_bytes += model.cache().bytes();
    if (engine.mesh().group_rank(device, Axis::context) == 0) {
      weight_bytes += weights.bytes();
      weight_bytes_per_step += weights.bytes_per_step();
    }
    if (device == 0) report.outcome = std::move(outcome);
  });
  report.weight_bytes = weight_bytes;
  report.weight_bytes_per_step = weight_bytes_per_step;
  report.cache_bytes = cache_bytes;
  report.peak_resident_bytes = peak_resident_bytes();
  return report;
}

}  // namespace maxtext
