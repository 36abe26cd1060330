// Tensor parallelism (Megatron-LM; Shoeybi et al. 2019): heads, the MLP's width and the vocabulary are cut over
// kTensorAxes. A block reads x, which all devices have, multiplies by rows of its first weights and by columns of its
// last one, and the devices' results are summed: one all_reduce a block forward, one backward.
//
// Cost per layer and device, P devices, N tokens: forward moves 2 · 2(P-1)/P · N · hidden_size elements, backward as
// many. Norms and residual sums are computed by every device.
#pragma once

#include <array>
#include <string>

#include "autodiff/graph.h"
#include "config/model_shape.h"

namespace maxtext {

/// How many devices hold the same KV heads where heads are cut over `tensor_parallelism` devices: 1, or what
/// tensor_parallelism has beyond the number of KV heads.
int kv_replicas(const ModelShape& shape, int tensor_parallelism);

/// The mesh of these sizes (data, fsdp, context, tensor) for a model. Throws ConfigError as tensor_part does.
Mesh model_mesh(const ModelShape& shape, std::array<int, 4> sizes);

/// What a device computes of a layer: query heads, KV heads and MLP width divided; vocabulary and hidden size stay.
/// Throws ConfigError naming ici_tensor_parallelism and the size that it does not divide, the vocabulary's too.
ModelShape tensor_part(const ModelShape& shape, const Mesh& mesh);

// Where values that all devices have meet values that each has a part of. With axes of size 1 these do nothing.

/// x, which all devices along `axes` have, is read by parts of weights: x; the cotangents that the devices find are
/// summed.
Variable enter_tensor(Variable x, AxisSet axes);

/// Each device along kTensorAxes has a summand: the sum, the same on all; its cotangent is each summand's. `name` is
/// what a rematerialisation policy calls it.
Variable leave_tensor(Variable x, std::string name);

/// A parameter that all devices along `axes` have and read for their heads only, such as the norm of q: the parameter;
/// the gradients that the devices find are summed.
Variable shared_parameter(Variable parameter, AxisSet axes);

}  // namespace maxtext
