// The OpenMP team of a benchmark that runs on the calling thread.
#pragma once

#include <vector>

#include "cli/bench/gemm_peak.h"
#include "cli/bench/settings.h"

namespace maxtext::bench {

/// The key `threads`: 0 takes all cores of this process.
Setting threads_setting();

/// Binds the calling thread and its team of `threads` to as many cores, as a device's thread in training; returns the
/// size of the team.
int use_team(const Settings& settings);

/// The key `gemm_sizes`, and the size among them that is the peak.
Setting gemm_sizes_setting();
std::int64_t peak_size(const Settings& settings);

}  // namespace maxtext::bench
