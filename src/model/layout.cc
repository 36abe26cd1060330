#include "model/layout.h"

#include <fmt/format.h>

#include "model/blocks.h"

namespace maxtext {

ModelLayout model_layout(const ModelShape& shape) { return model_layout(shape, Mesh({1, 1, 1, 1}), 0); }

ModelLayout model_layout(const ModelShape& shape, const Mesh& mesh, int device) {
  ModelLayout layout;
  // Untied tables start small; a tied one is also the head and starts as a projection does. (Gemma's embedding_scale
  // then makes the first layer's input of deviation 1.)
  const double deviation =
      shape.tie_word_embeddings ? projection("", 1, shape.hidden_size).initializer.deviation : 0.02;
  layout.groups.push_back(make_group({{"model.embed_tokens.weight",
                                       {shape.vocab_size, shape.hidden_size},
                                       {Initializer::Kind::truncated_normal, deviation},
                                       kRows}},
                                     mesh, device));
  const ModelFamily& family = model_family(shape.family);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    std::vector<ParameterInfo> parameters = family.layer_parameters(shape);
    for (ParameterInfo& parameter : parameters) {
      parameter.name = fmt::format("model.layers.{}.{}", layer, parameter.name);
    }
    layout.groups.push_back(make_group(std::move(parameters), mesh, device));
  }
  std::vector<ParameterInfo> head = {norm_scale("model.norm.weight", shape.hidden_size, shape)};
  if (!shape.tie_word_embeddings) {
    head.push_back(projection("lm_head.weight", shape.vocab_size, shape.hidden_size, kRows));
  }
  layout.groups.push_back(make_group(std::move(head), mesh, device));
  return layout;
}

void for_each_stack(const ModelLayout& layout, const std::function<void(std::size_t first, std::int64_t rows)>& visit) {
  visit(ModelLayout::kEmbedding, 1);
  if (layout.layers() > 0) visit(layout.layer_group(0), layout.layers());
  visit(layout.head_group(), 1);
}

std::int64_t parameter_count(const ModelLayout& layout) {
  std::int64_t count = 0;
  for (const ParameterGroup& group : layout.groups) {
    for (const ParameterInfo& parameter : group.parameters) count += element_count(parameter.shape);
  }
  return count;
}

}  // namespace maxtext
