// Llama 2, 3, 3.1, 3.2 (Touvron et al. 2023).
#include "model/blocks.h"

namespace maxtext {

const ModelFamily kLlama{.name = "llama", .layer_parameters = llama_like_parameters, .layer = llama_like_layer};

}  // namespace maxtext
