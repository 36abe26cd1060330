// The dataset that a configuration describes.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "data/open_dataset.h"

namespace maxtext {

/// The options that follow from the configuration's keys. `vocab_size` is the model's.
DatasetOptions dataset_options(const Config& config, std::int64_t vocab_size);

}  // namespace maxtext
