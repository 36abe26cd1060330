// Qwen 3: Llama with RMSNorm on each head of q and k (shape.qk_norm).
#include "model/blocks.h"

namespace maxtext {

const ModelFamily kQwen3{.name = "qwen3", .layer_parameters = llama_like_parameters, .layer = llama_like_layer};

}  // namespace maxtext
