// What one device owns, to and from checkpoints and other sources of weights.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/reader.h"
#include "checkpoint/weight_source.h"
#include "train/optimizer.h"

namespace maxtext {

/// The ranges of weights and moments that `device` owns, in place: valid until the next update. Replicas along the
/// data axis own nothing but the first one. Throws Error for an engine whose memory the host cannot read.
DeviceState device_state(ParameterShards& parameters, const Optimizer& optimizer);

/// Weights and moments from a checkpoint, bitwise, whatever mesh wrote it. Throws Error naming a tensor that is missing
/// or has another shape, one that the model does not have, and a kind of state that is not there at all, as moments are
/// not in a checkpoint made from weights; `opt_type` is what needs them, in that message.
void restore_state(const CheckpointReader& checkpoint, ParameterShards& parameters, Optimizer& optimizer,
                   std::string_view opt_type = "adamw");

/// Weights only, converted to fp32, tensor by tensor (no more than one shard's part of a tensor in memory). They have
/// to be the model's (check_weights).
void load_weights(const WeightSource& source, ParameterShards& parameters);

}  // namespace maxtext
