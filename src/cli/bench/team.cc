#include "cli/bench/team.h"

#include <omp.h>

#include "mesh/device_program.h"

namespace maxtext::bench {

Setting threads_setting() { return {"threads", "0", "threads; 0 takes all cores of this process"}; }

int use_team(const Settings& settings) {
  std::vector<int> cores = split_cores(1).front();
  const auto wanted = static_cast<std::size_t>(settings.integer("threads", 0));
  const std::size_t threads = wanted > 0 ? wanted : cores.size();
  if (threads < cores.size()) cores.resize(threads);
  pin_current_thread(cores);
  omp_set_num_threads(static_cast<int>(threads));
  return static_cast<int>(threads);
}

Setting gemm_sizes_setting() {
  return {"gemm_sizes", "1024,1536,2048,3072,4096", "sizes of square products, of which the fastest is the peak"};
}

std::int64_t peak_size(const Settings& settings) { return best_square_size(settings.integers("gemm_sizes")); }

}  // namespace maxtext::bench
