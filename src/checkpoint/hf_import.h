// A Hugging Face directory as a checkpoint of ours.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace maxtext {

/// Writes the tensors of `source` (as open_weights takes it; with config.json) as checkpoint 0 of
/// options.run_directory: weights only, in the dtypes they have, streamed from the mapped files. `load_parameters_path`
/// takes it; a run cannot resume from it, as it has no moments. Throws Error for a source without config.json, and as
/// save_checkpoint does.
SaveResult import_hf_directory(const std::filesystem::path& source, const SaveOptions& options);

/// The weights of a checkpoint as checkpoint 0 of options.run_directory, without moments and cursor, streamed from the
/// mapped files: a third of AdamW's checkpoint (MaxText's generate_param_only_checkpoint). `checkpoint` is
/// .../checkpoints/<step>. Throws Error as CheckpointReader and save_checkpoint do.
SaveResult save_weights_only(const std::filesystem::path& checkpoint, const SaveOptions& options);

}  // namespace maxtext
