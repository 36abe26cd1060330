// Logits of a whole sequence as generation computes them: by a prompt and decode steps over the KV cache.
#pragma once

#include <span>
#include <vector>

#include "inference/cached_model.h"
#include "inference/device_set.h"
#include "inference/model_files.h"

namespace maxtext {

/// Logits [ids, vocab_size]: the first half of the sequence is a prompt, each other token a step. The devices of
/// `mesh`, threads of this process, share the cache's positions and the heads. options.cache.max_length is at least the
/// number of ids.
std::vector<float> cached_logits(const ModelFiles& files, std::span<const std::int32_t> ids,
                                 const CachedModelOptions& options, const Mesh& mesh,
                                 const DecodeEnvironment& environment);

}  // namespace maxtext
