// The configuration of a benchmark that runs training steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace maxtext::bench {

/// Keys at their defaults, then `preset`, then `overrides`; or, where the first of `overrides` is a configuration file,
/// that file with the others laid over it, and no preset. Throws ConfigError as a training run does.
Config bench_config(const std::vector<std::string>& preset, const std::vector<std::string>& overrides);

/// `config` with max_target_length = `sequence_length` and, where it is not 0, `context_parallelism` devices along
/// ici_context_parallelism.
Config with_length(Config config, std::int64_t sequence_length, int context_parallelism = 0);

/// The model of the speed targets: 4 layers, embedding 512, 8 query heads on 2 KV heads of 64, mlp 1408, vocabulary
/// 8192, one row, no rematerialisation.
std::vector<std::string> step_preset();

/// A model whose step is attention almost alone at long sequences: 1 layer, embedding 128, 2 query heads on 1.
std::vector<std::string> attention_bound_preset();

/// The shape of a Llama with 135 million parameters: 30 layers, embedding 576, 9 query heads on 3 KV heads of 64, mlp
/// 1536, vocabulary 49152, tied head.
std::vector<std::string> decode_preset();

}  // namespace maxtext::bench
