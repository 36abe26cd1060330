// The parameter tree: Hugging Face names, grouped into flat buffers that are sharded and gathered as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/mesh.h"
#include "tensor/shape.h"

namespace maxtext {

/// How a parameter starts: ones (norms), zeros (biases), a normal of `deviation`, cut at two deviations.
struct Initializer {
  enum class Kind { zeros, ones, truncated_normal } kind = Kind::truncated_normal;
  double deviation = 0.02;
};

/// The axes over which parameters, gradients and moments are sharded.
inline constexpr AxisSet kShardAxes = Axis::fsdp | Axis::context;

/// How tensor parallelism cuts a parameter: into equal parts of a dimension, one for each coordinate along `axes`;
/// along the other axes of kTensorAxes it is replicated. No axes: it is whole on every device.
struct TensorSplit {
  AxisSet axes;
  std::size_t dimension = 0;
};

struct ParameterInfo {
  std::string name;
  Shape shape;  ///< of the whole parameter
  Initializer initializer;
  TensorSplit split;
};

/// The part of a parameter that a device computes with: `shape`, from `begin` along `dimension`.
struct ParameterSlice {
  Shape shape;
  std::size_t dimension = 0;
  std::int64_t begin = 0;
  /// This device is the first of those that hold the same part: it counts in norms and is saved.
  bool counts = true;
};

/// The slice of `device`. Throws ConfigError naming parameter and key where the dimension cannot be cut.
ParameterSlice parameter_slice(const ParameterInfo& parameter, const Mesh& mesh, int device);

/// A run of consecutive elements of a slice, and where they are in the whole parameter.
struct ElementRun {
  std::int64_t slice_first = 0;
  std::int64_t whole_first = 0;
  std::int64_t count = 0;
};

/// Elements [first, first + count) of the flattened slice as runs, ascending: one where the slice is the parameter or
/// rows of it, one a row where it is columns.
std::vector<ElementRun> element_runs(const ParameterInfo& parameter, const ParameterSlice& slice, std::int64_t first,
                                     std::int64_t count);

/// Parameters that travel together: one all_gather and one reduce_scatter per group. Each starts at a multiple of 16
/// elements of the group's flat buffer; the buffer is cut into equal shards, wherever the cuts fall, so that no device
/// holds more than its part and a gathered group is used in place, without a copy. Under tensor parallelism the buffer
/// holds the device's slices.
struct ParameterGroup {
  std::vector<ParameterInfo> parameters;
  std::vector<ParameterSlice> slices;
  std::vector<std::int64_t> offsets;  ///< first element of each slice
  std::int64_t shard_length = 0;      ///< elements per device
  int shards = 1;

  std::int64_t length() const { return shard_length * shards; }
};

/// The group of a device, cut into mesh.size(kShardAxes) shards.
ParameterGroup make_group(std::vector<ParameterInfo> parameters, const Mesh& mesh, int device);

/// The part of a slice that lies in one shard of its group: elements [first, first + count) of the slice are at
/// [shard_offset, …) of the shard. count is 0 where the shard has nothing of it.
struct ParameterRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t shard_offset = 0;
};
ParameterRange parameter_range(const ParameterGroup& group, std::size_t parameter, int shard);

/// Elements of the parameter's initial value, [first, first + count): a function of (seed, name, element), so that
/// they do not depend on the mesh.
std::vector<float> initial_values(const ParameterInfo& parameter, std::uint64_t seed, std::int64_t first,
                                  std::int64_t count);
/// Those of a part of a slice.
std::vector<float> initial_values(const ParameterGroup& group, std::size_t parameter, const ParameterRange& range,
                                  std::uint64_t seed);

}  // namespace maxtext
