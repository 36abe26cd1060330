// Model keys of a configuration beside a config.json, which decides what the model is.
#pragma once

#include "config/config.h"
#include "config/model_shape.h"

namespace maxtext {

/// Throws ConfigError for a model key that was given and says otherwise than `found`, the model of a config.json: it
/// would be passed over. A key that agrees with it is none, and neither is one that does not apply to it, whatever the
/// keys that were not given say.
void refuse_other_keys(const Config& config, const ModelShape& found);

}  // namespace maxtext
