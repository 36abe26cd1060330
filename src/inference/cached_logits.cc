#include "inference/cached_logits.h"

#include "mesh/thread_transport.h"

namespace maxtext {

std::vector<float> cached_logits(const ModelFiles& files, std::span<const std::int32_t> ids,
                                 const CachedModelOptions& options, const Mesh& mesh,
                                 const DecodeEnvironment& environment) {
  ThreadTransport transport{mesh};
  std::vector<float> result;
  run_on_devices(transport, environment, [&](Engine& engine) {
    const InferenceWeights weights(engine, files.shape, *files.weights);
    CachedModel model(engine, files.shape, weights, options);
    const std::size_t prompt = (ids.size() + 1) / 2;
    // Every device has the same.
    const auto keep = [&](std::int64_t, std::span<const float> logits) {
      if (engine.device() == 0) result.insert(result.end(), logits.begin(), logits.end());
    };
    model.prefill_all(0, ids.first(prompt), keep);
    for (std::size_t t = prompt; t < ids.size(); ++t)
      keep(0, model.step(std::vector<int>{0}, ids.subspan(t, 1)).front());
  });
  return result;
}

}  // namespace maxtext
