#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/splitmix64.h"

namespace maxtext {
namespace {

constexpr std::int64_t kAlignment = 16;  // elements: one cache line of fp32, one AVX-512 register

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::uint64_t name_hash(std::string_view name) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

double uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11U) + 0.5) * 0x1.0p-53; }

/// A standard normal cut at ±2 by rejection (MaxText's truncated_normal), from a stream per element.
double truncated_normal(std::uint64_t key) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const double u = uniform(splitmix64(key + 2 * attempt));
    const double v = uniform(splitmix64(key + 2 * attempt + 1));
    const double z = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
    if (std::abs(z) <= 2) return z;
  }
}

}  // namespace

ParameterSlice parameter_slice(const ParameterInfo& parameter, const Mesh& mesh, int device) {
  const TensorSplit& split = parameter.split;
  ParameterSlice slice{.shape = parameter.shape, .dimension = split.dimension};
  const AxisSet replicas = kTensorAxes.without(split.axes);
  slice.counts = mesh.group_rank(device, replicas) == 0;
  const std::int64_t parts = mesh.size(split.axes);
  if (parts == 1) return slice;
  const std::int64_t size = parameter.shape.at(split.dimension);
  if (size % parts != 0) {
    fail_config("ici_tensor_parallelism: {} {} cannot be cut into {} equal parts along dimension {}", parameter.name,
                to_string(parameter.shape), parts, split.dimension);
  }
  slice.shape.at(split.dimension) = size / parts;
  slice.begin = size / parts * mesh.group_rank(device, split.axes);
  return slice;
}

std::vector<ElementRun> element_runs(const ParameterInfo& parameter, const ParameterSlice& slice, std::int64_t first,
                                     std::int64_t count) {
  // Rows of `inner` elements of the slice, of which the whole parameter has `stride` a row.
  std::int64_t inner = 1;
  std::int64_t stride = 1;
  for (std::size_t i = slice.dimension; i < slice.shape.size(); ++i) {
    inner *= slice.shape[i];
    stride *= parameter.shape[i];
  }
  const std::int64_t begin =
      slice.shape.empty() ? 0 : slice.begin * (inner / std::max<std::int64_t>(slice.shape[slice.dimension], 1));
  if (inner == stride) return {{first, first, count}};
  std::vector<ElementRun> runs;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = first + done;
    const std::int64_t length = std::min(count - done, inner - at % inner);
    runs.push_back({at, at / inner * stride + begin + at % inner, length});
    done += length;
  }
  return runs;
}

ParameterGroup make_group(std::vector<ParameterInfo> parameters, const Mesh& mesh, int device) {
  ParameterGroup group;
  group.shards = mesh.size(kShardAxes);
  std::int64_t end = 0;
  for (const ParameterInfo& parameter : parameters) {
    group.slices.push_back(parameter_slice(parameter, mesh, device));
    group.offsets.push_back(end);
    end = round_up(end + element_count(group.slices.back().shape), kAlignment);
  }
  group.shard_length = round_up(end, kAlignment * group.shards) / group.shards;
  group.parameters = std::move(parameters);
  return group;
}

ParameterRange parameter_range(const ParameterGroup& group, std::size_t parameter, int shard) {
  const std::int64_t begin = group.offsets[parameter];
  const std::int64_t end = begin + element_count(group.slices[parameter].shape);
  const std::int64_t shard_begin = group.shard_length * shard;
  const std::int64_t first = std::clamp(shard_begin, begin, end);
  const std::int64_t last = std::clamp(shard_begin + group.shard_length, begin, end);
  return {.first = first - begin,
          .count = last - first,
          .shard_offset = std::clamp<std::int64_t>(first - shard_begin, 0, group.shard_length)};
}

std::vector<float> initial_values(const ParameterInfo& parameter, std::uint64_t seed, std::int64_t first,
                                  std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  switch (parameter.initializer.kind) {
    case Initializer::Kind::zeros:
      std::fill(values.begin(), values.end(), 0.0F);
      break;
    case Initializer::Kind::ones:
      std::fill(values.begin(), values.end(), 1.0F);
      break;
    case Initializer::Kind::truncated_normal: {
      // Cutting at two deviations shrinks the deviation to 0.8796; what was asked for is the deviation after the cut.
      const double scale = parameter.initializer.deviation / 0.87962566103423978;
      const std::uint64_t stream = splitmix64(splitmix64(seed) ^ name_hash(parameter.name));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t key = splitmix64(stream ^ static_cast<std::uint64_t>(first + i));
        values[static_cast<std::size_t>(i)] = static_cast<float>(scale * truncated_normal(key));
      }
      break;
    }
  }
  return values;
}

std::vector<float> initial_values(const ParameterGroup& group, std::size_t parameter, const ParameterRange& range,
                                  std::uint64_t seed) {
  const ParameterInfo& info = group.parameters[parameter];
  std::vector<float> values;
  for (const ElementRun& run : element_runs(info, group.slices[parameter], range.first, range.count)) {
    const std::vector<float> part = initial_values(info, seed, run.whole_first, run.count);
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

}  // namespace maxtext
