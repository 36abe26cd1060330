// The parameter tree: Hugging Face names, grouped into flat buffers that are sharded and gathered as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace maxtext {

/// How a parameter starts: ones (norms), zeros (biases), a normal of `deviation`, cut at two deviations.
struct Initializer {
  enum class Kind { zeros, ones, truncated_normal } kind = Kind::truncated_normal;
  double deviation = 0.02;
};

struct ParameterInfo {
  std::string name;
  Shape shape;
  Initializer initializer;
};

/// Parameters that travel together: one all_gather and one reduce_scatter per group. Each starts at a multiple of 16
/// elements of the group's flat buffer; the buffer is cut into equal shards, wherever the cuts fall, so that no device
/// holds more than its part and a gathered group is used in place, without a copy.
struct ParameterGroup {
  std::vector<ParameterInfo> parameters;
  std::vector<std::int64_t> offsets;  ///< first element of each parameter
  std::int64_t shard_length = 0;      ///< elements per device
  int shards = 1;

  std::int64_t length() const { return shard_length * shards; }
};

ParameterGroup make_group(std::vector<ParameterInfo> parameters, int shards);

/// The part of a parameter that lies in one shard of its group: elements [first, first + count) of the parameter are
/// at [shard_offset, …) of the shard. count is 0 where the shard has nothing of it.
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

}  // namespace maxtext
