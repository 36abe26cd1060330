#include "cli/cpu_environment.h"

#include "engines/cpu/cpu_engine.h"

namespace maxtext {

DecodeEnvironment cpu_environment(const Config& config, bool few_rows) {
  DecodeEnvironment environment;
  environment.make_engine = [few_rows](Communicator& communicator, int threads) {
    return std::make_unique<CpuEngine>(CpuEngineOptions{.threads = threads, .fast_few_rows = few_rows}, communicator);
  };
  environment.threads_per_device = static_cast<int>(config.integer("threads_per_device"));
  return environment;
}

}  // namespace maxtext
