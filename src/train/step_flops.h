// Floating-point operations of a training step by MaxText's formula (calculate_tflops_training_per_device in its
// maxtext_utils), the numerator of TFLOP/s/device in the step line.
#pragma once

#include <cstdint>

#include "config/model_shape.h"

namespace maxtext {

/// FLOPs per device and step: forward and backward, three times the forward.
struct StepFlops {
  /// Matrix products with weights: 3 * 2*b*S * (L * (3*E*M + E*(Hq + 2*Hkv)*D + Hq*D*E) + E*V).
  /// The embedding look-up counts as zero; the output head counts whether it is tied or not.
  double learnable_weights = 0;
  /// Attention, causal: 3 * 4*b*Hq*D * area, summed over layers, where area is S^2/2 for a layer that sees everything
  /// and S*W - W^2/2 for a window of W keys (W cut to S), linear in S.
  double attention = 0;

  double total() const { return learnable_weights + attention; }
};

/// b is the rows per device and micro-batch, S the sequence length. b is fractional under context parallelism (the rows
/// of a group of devices divided by their number), which makes the formula independent of how a sequence is sharded;
/// micro-batches multiply the result by gradient_accumulation_steps. Packed documents are counted as one document and
/// recomputation as nothing: the figure compares runs, it does not measure the kernels.
StepFlops step_flops(const ModelShape& shape, double per_device_batch_size, std::int64_t sequence_length,
                     std::int64_t gradient_accumulation_steps = 1);

}  // namespace maxtext
