// Mistral (Jiang et al. 2023): Llama with a sliding window, which the shape's layer_windows carry.
#include "model/blocks.h"

namespace maxtext {

const ModelFamily kMistral{.name = "mistral", .layer_parameters = llama_like_parameters, .layer = llama_like_layer};

}  // namespace maxtext
