// Logits of a whole sequence by the training forward, on any mesh.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/weight_source.h"
#include "config/model_shape.h"
#include "context/context_plan.h"
#include "inference/decode.h"
#include "mesh/mesh.h"

namespace maxtext {

/// Logits [ids, vocab_size] in original order of one document, its sequence sharded and reordered as training does it.
/// Axes data and fsdp of `mesh` repeat the sequence, so that rows divide. Devices are threads of this process.
std::vector<float> forward_logits(const ModelShape& shape, const WeightSource& weights,
                                  std::span<const std::int32_t> ids, const Mesh& mesh, ReorderStrategy reorder,
                                  const DecodeEnvironment& environment);

}  // namespace maxtext
