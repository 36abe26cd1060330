#include "model/decoder_parts.h"

#include "base/error.h"
#include "ops/rope_frequencies.h"

namespace maxtext {

std::vector<double> inverse_frequencies(const RopeShape& rope, std::int64_t head_dim) {
  std::vector<double> plain = rope_inverse_frequencies(head_dim, rope.theta);
  const auto original_length = static_cast<double>(rope.original_max_position_embeddings);
  switch (rope.type) {
    case RopeType::plain:
      return plain;
    case RopeType::linear:
      return linear_scaled(plain, rope.factor);
    case RopeType::llama3:
      return llama3_scaled(plain, {.factor = rope.factor,
                                   .low_factor = rope.low_freq_factor,
                                   .high_factor = rope.high_freq_factor,
                                   .original_length = original_length});
    case RopeType::yarn:
      return yarn_inverse_frequencies(head_dim, rope.theta,
                                      {.factor = rope.factor,
                                       .beta_fast = rope.beta_fast,
                                       .beta_slow = rope.beta_slow,
                                       .original_length = original_length,
                                       .truncate = rope.truncate});
  }
  fail("unknown rope type");
}

LayerRopeTables::LayerRopeTables(Engine& engine, const ModelShape& shape, const Tensor& position_ids, DType dtype) {
  std::vector<const RopeShape*> made;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const RopeShape* const rope = &layer_rope(shape, layer);
    std::size_t index = 0;
    while (index < made.size() && made[index] != rope) ++index;
    of_layer_.push_back(index);
    if (index < made.size()) continue;
    made.push_back(rope);
    const std::vector<Tensor> table =
        engine.apply(RopeTable{.inverse_frequencies = inverse_frequencies(*rope, shape.head_dim),
                               .attention_factor = rope->attention_factor,
                               .dtype = dtype},
                     {position_ids});
    tables_.push_back({table[0], table[1]});
  }
}

namespace {

/// [P, ..., n] -> [..., P·n].
Tensor join_last_dimension(Engine& engine, const Tensor& parts) {
  std::vector<int> last;
  for (int i = 1; i + 1 < static_cast<int>(parts.shape().size()); ++i) last.push_back(i);
  last.push_back(0);
  last.push_back(static_cast<int>(parts.shape().size()) - 1);
  Shape joined(parts.shape().begin() + 1, parts.shape().end());
  joined.back() *= parts.dim(0);
  return engine.apply_one(Reshape{.shape = joined}, {engine.apply_one(Transpose{.permutation = last}, {parts})});
}

}  // namespace

Tensor first_vocabulary_row(Engine& engine, const ModelShape& shape) {
  const Mesh& mesh = engine.mesh();
  const auto row = static_cast<std::int32_t>(shape.vocab_size / mesh.size(kTensorAxes) *
                                             mesh.group_rank(engine.device(), kTensorAxes));
  return engine.input({{}, DType::int32}, std::as_bytes(std::span(&row, 1)));
}

Tensor embed_tokens(Engine& engine, const ModelShape& shape, const Tensor& table, const Tensor& ids) {
  const int parts = engine.mesh().size(kTensorAxes);
  Tensor rows = parts == 1 ? engine.apply_one(Embedding{}, {table, ids})
                           : engine.apply_one(Embedding{}, {table, ids, first_vocabulary_row(engine, shape)});
  if (parts > 1) rows = engine.apply_one(AllReduce{.axes = kTensorAxes, .group_size = parts}, {rows});
  return shape.embedding_scale == 1 ? rows : engine.apply_one(Scale{.factor = shape.embedding_scale}, {rows});
}

Tensor final_norm(Engine& engine, const ModelShape& shape, const Tensor& x, const Tensor& weight) {
  return engine.apply_one(RmsNorm{.epsilon = shape.rms_norm_eps, .weight_offset = shape.norm_weight_offset},
                          {x, weight});
}

Tensor output_logits(Engine& engine, const ModelShape& shape, const Tensor& hidden, const Tensor& weight) {
  Tensor logits = engine.apply_one(Linear{}, {hidden, weight});
  if (const int parts = engine.mesh().size(kTensorAxes); parts > 1) {
    const AllGather gather{.axes = kTensorAxes, .group_size = parts};
    logits = join_last_dimension(engine, engine.apply_one(gather, {logits}));
  }
  if (shape.final_softcap == 0) return logits;
  return engine.apply_one(SoftCap{.cap = shape.final_softcap, .in_place = true}, {logits});
}

}  // namespace maxtext
