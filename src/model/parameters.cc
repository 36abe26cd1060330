#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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

ParameterGroup make_group(std::vector<ParameterInfo> parameters, int shards) {
  ParameterGroup group;
  group.shards = shards;
  std::int64_t end = 0;
  for (const ParameterInfo& parameter : parameters) {
    group.offsets.push_back(end);
    end = round_up(end + element_count(parameter.shape), kAlignment);
  }
  group.shard_length = round_up(end, kAlignment * shards) / shards;
  group.parameters = std::move(parameters);
  return group;
}

ParameterRange parameter_range(const ParameterGroup& group, std::size_t parameter, int shard) {
  const std::int64_t begin = group.offsets[parameter];
  const std::int64_t end = begin + element_count(group.parameters[parameter].shape);
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

}  // namespace maxtext
