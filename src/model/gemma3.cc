// Gemma 3, text (Gemma Team 2025): Gemma 2 with norms on q and k (shape.qk_norm) in place of soft caps, and with a
// rotary embedding of its own on layers with a window (shape.local_rope).
#include "model/blocks.h"

namespace maxtext {

const ModelFamily kGemma3{.name = "gemma3", .layer_parameters = sandwich_parameters, .layer = sandwich_layer};

}  // namespace maxtext
