// All parameters of a model, in the groups in which they travel.
#pragma once

#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "config/model_shape.h"
#include "model/parameters.h"

namespace maxtext {

/// Groups in the order of the forward pass: the embedding; each layer; the final norm with the untied head.
struct ModelLayout {
  std::vector<ParameterGroup> groups;

  static constexpr std::size_t kEmbedding = 0;
  std::size_t layer_group(std::int64_t layer) const { return static_cast<std::size_t>(layer) + 1; }
  std::size_t head_group() const { return groups.size() - 1; }
  std::int64_t layers() const { return std::ssize(groups) - 2; }
  bool is_layer(std::size_t group) const { return group > kEmbedding && group < head_group(); }
};

/// Calls visit(first group, number of groups) for the embedding, all layers together, and the head: layers' groups are
/// alike, and what is kept for each of them is a stack.
void for_each_stack(const ModelLayout& layout, const std::function<void(std::size_t first, std::int64_t rows)>& visit);

/// The layout of a device. Names are the full Hugging Face names ("model.layers.0.self_attn.q_proj.weight"). Throws
/// ConfigError where tensor parallelism does not divide a parameter.
ModelLayout model_layout(const ModelShape& shape, const Mesh& mesh, int device);
/// Of one device that has all.
ModelLayout model_layout(const ModelShape& shape);

/// Elements of all parameters, each once.
std::int64_t parameter_count(const ModelLayout& layout);

}  // namespace maxtext
