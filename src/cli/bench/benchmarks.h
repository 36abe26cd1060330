// What `maxtext bench` measures. Each benchmark prints its figures and returns them (Report::json).
#pragma once

#include <string>
#include <vector>

#include "cli/bench/json.h"
#include "cli/bench/settings.h"

namespace maxtext::bench {

using Assignments = std::vector<std::string>;

/// Square products of several sizes, and the products of a training step, against the peak.
std::vector<Setting> gemm_settings();
Json gemm_bench(const Assignments& assignments);

/// Reads of 1, 2, 4 and 8 streams a thread, and copies, against the best read.
std::vector<Setting> bandwidth_settings();
Json bandwidth_bench(const Assignments& assignments);

/// Products of few rows with weights, as decoding has them, against the best read.
std::vector<Setting> decode_weights_settings();
Json decode_weights_bench(const Assignments& assignments);

/// Attention forward and backward against the GEMM peak.
std::vector<Setting> attention_settings();
Json attention_bench(const Assignments& assignments);

/// Attention of a decode step over a KV cache against the best read, and against its own speed in cache.
std::vector<Setting> decode_attention_settings();
Json decode_attention_bench(const Assignments& assignments);

/// Decode steps of a whole model against the best read, at several contexts; prompts against the GEMM peak. Other keys
/// are those of a configuration.
std::vector<Setting> decode_settings();
Json decode_bench(const Assignments& assignments);

/// Training steps against the GEMM peak, tokens per second, peak memory. Other keys are those of a configuration.
std::vector<Setting> step_settings();
Json step_bench(const Assignments& assignments);

/// Context parallelism against one device, reordering against none, balance of measured attention time.
std::vector<Setting> context_settings();
Json context_bench(const Assignments& assignments);

}  // namespace maxtext::bench
