// Gemma 2 (Gemma Team 2024): norms around attention and MLP, (1 + w) norms, gelu gate, scaled embedding, soft-capped
// scores and logits, windows on every other layer.
#include "model/blocks.h"

namespace maxtext {

const ModelFamily kGemma2{.name = "gemma2", .layer_parameters = sandwich_parameters, .layer = sandwich_layer};

}  // namespace maxtext
