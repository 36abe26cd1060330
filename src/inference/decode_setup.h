// From a configuration to what `decode` does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "inference/cached_model.h"
#include "inference/model_files.h"
#include "inference/prompts.h"
#include "inference/text_generation.h"

namespace maxtext {

struct DecodeSetup {
  ModelFiles files;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<Prompt> prompts;
  /// One per prompt.
  std::vector<TextRequest> requests;
  CachedModelOptions model;
  std::uint64_t weights_seed = 0;
  std::uint64_t sampling_seed = 0;
  /// The devices: along the context axis they share the cache's positions, along the tensor axes the heads.
  Mesh mesh{{1, 1, 1, 1}};
  /// Lines worth showing before the answers: what is possible, and probably not meant.
  std::vector<std::string> notes;
};

/// Opens model, tokenizer and prompts. Throws ConfigError with one line naming the key for what does not fit together:
/// an `attention` that cannot decode, a prompt longer than max_prefill_predict_length, max_target_length not above it,
/// a prompt with a token that the model has no row for, weights and cache that do not fit into memory.
DecodeSetup decode_setup(const Config& config);

/// The model of one sequence of max_target_length, as the keys of the cache describe it.
CachedModelOptions cached_model_options(const Config& config);

/// The devices of generation, threads of this process: ici_context_autoregressive_parallelism (times
/// ici_autoregressive_parallelism) along the context axis, ici_tensor_parallelism along the tensor axes. Throws
/// ConfigError for more than threads can be, and for a model that tensor parallelism does not divide.
Mesh generation_mesh(const Config& config, const ModelShape& shape);

/// The sampling that the decode_sampling_* keys describe: the strategy decides which of the filters count.
SamplingOptions sampling_options(const Config& config);

/// Names of the decode_sampling_* keys whose values would change the answers if the strategy counted them.
std::vector<std::string> unused_sampling_keys(const Config& config);

}  // namespace maxtext
