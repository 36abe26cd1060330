// What the fused and the vocabulary-parallel cross-entropy share.
#pragma once

#include "engines/xla/stablehlo_writer.h"

namespace maxtext {

/// float64 [2] = (Σ w·nll, Σ w·z_multiplier·lse²) of tokens [N]: summed in their dtype, so N should be a chunk.
XlaValue weighted_loss_sums(StableHloWriter& writer, const XlaValue& weight, const XlaValue& nll, const XlaValue& lse,
                            double z_multiplier);

}  // namespace maxtext
