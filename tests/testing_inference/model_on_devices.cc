#include "testing_inference/model_on_devices.h"

#include "engines/cpu/cpu_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "model/tensor_parallel.h"

namespace maxtext::testing {

void run_cached_model(const ModelShape& shape, const WeightSource& weights, const DeviceRunOptions& options,
                      const std::function<void(CachedModel& model, int device)>& program) {
  ThreadTransport transport{model_mesh(shape, {1, 1, options.devices, options.tensor})};
  run_devices(
      transport.local_devices(),
      [&](int device) {
        const std::unique_ptr<Communicator> communicator = transport.communicator(device);
        const std::unique_ptr<Engine> engine =
            options.make_engine ? options.make_engine(*communicator)
                                : std::make_unique<CpuEngine>(CpuEngineOptions{.threads = options.threads,
                                                                               .fast_few_rows = options.fast_few_rows},
                                                              *communicator);
        const InferenceWeights tensors(*engine, shape, weights);
        CachedModel model(*engine, shape, tensors, options.model);
        program(model, device);
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

}  // namespace maxtext::testing
