// Qwen 2 and 2.5: Llama with biases on q, k and v (shape.attention_bias).
#include "model/blocks.h"

namespace maxtext {

const ModelFamily kQwen2{.name = "qwen2", .layer_parameters = llama_like_parameters, .layer = llama_like_layer};

}  // namespace maxtext
