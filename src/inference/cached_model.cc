#include "inference/cached_model.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "inference/prefill_arrays.h"
#include "model/decoder_parts.h"
#include "model/tensor_parallel.h"

namespace maxtext {
namespace {

std::span<const float> row(std::span<const float> values, std::size_t index, std::size_t size) {
  return values.subspan(index * size, size);
}

}  // namespace

CacheOptions paged_cache(const CachedModelOptions& options, int devices) {
  CacheOptions cache = options.cache;
  cache.page = page_size(options.prefill_chunk, cache.max_length, devices);
  return cache;
}

CachedModel::CachedModel(Engine& engine, const ModelShape& shape, const InferenceWeights& weights,
                         const CachedModelOptions& options)
    : engine_(engine),
      shape_(shape),
      part_(tensor_part(shape, engine.mesh())),
      family_(model_family(shape.family)),
      weights_(weights),
      options_(options),
      cache_(engine, part_, paged_cache(options, engine.mesh().size(Axis::context))),
      lengths_(static_cast<std::size_t>(options.cache.sequences), 0),
      decode_layers_(engine, part_, weights, [this](const std::size_t& layer) {
        return std::make_unique<CachedAttention>([this, &layer]() -> LayerCache& { return cache_.layers()[layer]; },
                                                 cache_.layers()[layer].ring ? ring_step_ : full_step_);
      }) {
  if (!engine.compiles_shapes() || slots() == 1) return;
  CacheOptions one = cache_.options();
  one.sequences = 1;
  prompt_cache_.emplace(engine, part_, one);
}

void CachedModel::reserve(std::int64_t length) {
  cache_.reserve(length);
  if (prompt_cache_) prompt_cache_->reserve(length);
}

std::vector<LayerCache> CachedModel::prompt_layers(int slot) const {
  return prompt_cache_ ? prompt_cache_->sequence(0) : cache_.sequence(slot);
}

void CachedModel::store_prompt(int slot) {
  if (!prompt_cache_) return;
  const std::vector<LayerCache> slot_layers = cache_.sequence(slot);
  for (std::size_t layer = 0; layer < slot_layers.size(); ++layer) {
    const LayerCache& from = prompt_cache_->layers()[layer];
    const LayerCache& to = slot_layers[layer];
    engine_.apply_one(Assign{}, {from.keys, to.keys});
    engine_.apply_one(Assign{}, {from.values, to.values});
    if (!from.key_scales.defined()) continue;
    engine_.apply_one(Assign{}, {from.key_scales, to.key_scales});
    engine_.apply_one(Assign{}, {from.value_scales, to.value_scales});
  }
  engine_.run_pending();
}

Tensor CachedModel::integers(Shape shape, std::span<const std::int32_t> values) {
  return engine_.input({shape, DType::int32}, std::as_bytes(values));
}

Tensor CachedModel::run_prompt(const Tensor& ids, const Tensor& position_ids, const MakePromptAttention& attention) {
  const LayerRopeTables tables(engine_, shape_, position_ids, DType::float32);
  const auto body = [&](Graph& graph, Variable x, std::span<const Variable> parameters, int layer) {
    const std::unique_ptr<LayerAttention> strategy = attention(static_cast<std::size_t>(layer));
    const LayerConstants constants{.rope_cos = graph.constant(tables.cos(layer)),
                                   .rope_sin = graph.constant(tables.sin(layer)),
                                   .attention = *strategy};
    return family_.layer(part_, x, parameters, constants);
  };
  // Every layer has a cache of its own: none stands for another.
  const auto layer_count = static_cast<int>(shape_.layers);
  Repeat layers(engine_, layer_count, std::max(layer_count, 1), body);
  InferenceParameterSource source(weights_);
  return layers.forward(embed_tokens(engine_, shape_, weights_.embedding(), ids), source, nullptr);
}

std::vector<float> CachedModel::logits(const Tensor& hidden) {
  const Tensor normed = final_norm(engine_, shape_, hidden, weights_.final_norm());
  const Tensor result = output_logits(engine_, shape_, normed, weights_.head());
  std::vector<float> values(static_cast<std::size_t>(result.elements()));
  engine_.read(result, std::as_writable_bytes(std::span(values)));
  return values;
}

std::int64_t CachedModel::padded_chunk(std::int64_t tokens) const {
  if (!engine_.compiles_shapes()) return tokens;
  constexpr std::int64_t kFewestTokens = 16;
  const auto power = std::bit_ceil(static_cast<std::uint64_t>(std::max(tokens, kFewestTokens)));
  return std::max(tokens, std::min(static_cast<std::int64_t>(power), cache_.options().page));
}

PrefillStep CachedModel::prefill_step(std::int64_t window, std::int64_t first, std::int64_t tokens) {
  PrefillArrays arrays = window > 0 ? ring_prefill_arrays(first, tokens, window)
                                    : full_prefill_arrays(first, tokens, cache_.capacity(), cache_.options().page,
                                                          cache_.rank(), cache_.group_size());
  PrefillStep step;
  const std::int64_t queries = padded_chunk(tokens);
  if (engine_.compiles_shapes()) {
    arrays = padded(std::move(arrays), queries, window > 0 ? window + queries : cache_.capacity());
    const auto kept = static_cast<std::int32_t>(tokens);
    step.rows = integers({1}, {&kept, 1});
  }
  step.position = integers({1}, {&arrays.position, 1});
  step.slots = integers({1, std::ssize(arrays.slots)}, arrays.slots);
  step.key_begin = integers({1, queries}, arrays.key_begin);
  step.key_end = integers({1, queries}, arrays.key_end);
  step.area = arrays.area;
  return step;
}

Tensor CachedModel::prefill_chunk(int slot, std::int64_t first, std::span<const std::int32_t> ids) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  reserve(first + tokens);
  const std::int64_t computed = padded_chunk(tokens);
  std::vector<std::int32_t> inputs(ids.begin(), ids.end());
  inputs.resize(static_cast<std::size_t>(computed), 0);
  std::vector<std::int32_t> positions(inputs.size());
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));

  // One set of arrays per window; layers with the same one share it.
  std::map<std::int64_t, PrefillStep> steps;
  for (const std::int64_t window : shape_.layer_windows) {
    if (!steps.contains(window)) steps[window] = prefill_step(window, first, tokens);
  }
  std::vector<LayerCache> caches = prompt_layers(slot);
  return run_prompt(integers({1, computed}, inputs), integers({1, computed}, positions), [&](std::size_t layer) {
    return std::make_unique<CachedAttention>(caches[layer], steps.at(shape_.layer_windows[layer]));
  });
}

Tensor CachedModel::hidden_state(const Tensor& hidden, std::int64_t token) {
  if (!engine_.compiles_shapes()) return engine_.apply_one(Slice{.axis = 1, .start = token, .length = 1}, {hidden});
  // Which one it is, is an input: another token is not another program.
  const std::int64_t size = hidden.dim(2);
  const auto index = static_cast<std::int32_t>(token);
  const Tensor rows = engine_.apply_one(Reshape{.shape = {hidden.dim(1), size}}, {hidden});
  const Tensor row = engine_.apply_one(Take{}, {rows, integers({1}, {&index, 1})});
  return engine_.apply_one(Reshape{.shape = {1, 1, size}}, {row});
}

void CachedModel::prefill_all(int slot, std::span<const std::int32_t> ids, const LogitsVisitor& visit) {
  const auto chunk = static_cast<std::size_t>(cache_.options().page);
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    const Tensor hidden = prefill_chunk(slot, static_cast<std::int64_t>(first), part);
    const std::vector<float> values = logits(hidden);
    visit(static_cast<std::int64_t>(first),
          std::span(values).first(part.size() * static_cast<std::size_t>(shape_.vocab_size)));
  }
  store_prompt(slot);
  lengths_.at(static_cast<std::size_t>(slot)) = static_cast<std::int64_t>(ids.size());
}

std::vector<float> CachedModel::prefill(int slot, std::span<const std::int32_t> ids, const Cancel& cancel) {
  if (ids.empty()) fail("a prompt has to have a token");
  lengths_.at(static_cast<std::size_t>(slot)) = 0;
  // All chunks read a cache of one shape.
  if (engine_.compiles_shapes()) reserve(std::ssize(ids));
  const auto chunk = static_cast<std::size_t>(cache_.options().page);
  Tensor hidden;
  std::size_t tokens = 0;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    if (cancel && cancel()) return {};
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    hidden = prefill_chunk(slot, static_cast<std::int64_t>(first), part);
    tokens = part.size();
    engine_.run_pending();
  }
  store_prompt(slot);
  lengths_.at(static_cast<std::size_t>(slot)) = static_cast<std::int64_t>(ids.size());
  return logits(hidden_state(hidden, static_cast<std::int64_t>(tokens) - 1));
}

void CachedModel::pretend_length(int slot, std::int64_t length) {
  reserve(length);
  for (const LayerCache& layer : cache_.sequence(slot)) {
    for (const Tensor* tensor : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales}) {
      if (!tensor->defined()) continue;
      const std::vector<std::byte> zeros(static_cast<std::size_t>(tensor->spec().bytes()));
      engine_.write(*tensor, zeros);
    }
  }
  lengths_.at(static_cast<std::size_t>(slot)) = length;
}

void CachedModel::shorten(int slot, std::int64_t length) {
  std::int64_t& current = lengths_.at(static_cast<std::size_t>(slot));
  if (length > current) fail("slot {} has read {} tokens, fewer than {}", slot, current, length);
  current = length;
}

std::vector<std::vector<float>> CachedModel::step(std::span<const int> slots, std::span<const std::int32_t> ids) {
  const auto batch = static_cast<std::size_t>(cache_.options().sequences);
  const std::int64_t page = cache_.options().page;
  std::vector<std::int32_t> inputs(batch, 0);
  std::vector<std::int32_t> position_ids(batch, 0);
  // What this device keeps of the layers without a window, and the same of rings, which every device has whole.
  std::vector<std::int32_t> position(batch, -1);
  std::vector<std::int32_t> length(batch, 0);
  std::vector<std::int32_t> ring_position(batch, -1);
  std::vector<std::int32_t> ring_length(batch, 0);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto slot = static_cast<std::size_t>(slots[i]);
    const std::int64_t at = lengths_.at(slot)++;
    reserve(at + 1);
    inputs[slot] = ids[i];
    position_ids[slot] = ring_position[slot] = static_cast<std::int32_t>(at);
    ring_length[slot] = static_cast<std::int32_t>(at + 1);
    const auto local = [&](std::int64_t positions) {
      return static_cast<std::int32_t>(local_positions(positions, page, cache_.rank(), cache_.group_size()));
    };
    if (holds_position(at, page, cache_.rank(), cache_.group_size())) position[slot] = local(at);
    length[slot] = local(at + 1);
  }
  const auto sequences = static_cast<std::int64_t>(batch);
  const Tensor zeros = integers({sequences}, std::vector<std::int32_t>(batch, 0));
  full_step_ = {integers({sequences}, position), zeros, integers({sequences}, length), options_.batch_invariant};
  ring_step_ = {integers({sequences}, ring_position), zeros, integers({sequences}, ring_length),
                options_.batch_invariant};
  const LayerRopeTables tables(engine_, shape_, integers({sequences, 1}, position_ids), DType::float32);
  const Tensor embedded = embed_tokens(engine_, shape_, weights_.embedding(), integers({sequences, 1}, inputs));
  const Tensor hidden = decode_layers_.run(embedded, tables);
  const std::vector<float> all = logits(hidden);
  std::vector<std::vector<float>> result;
  for (const int slot : slots) {
    const auto values = row(all, static_cast<std::size_t>(slot), static_cast<std::size_t>(shape_.vocab_size));
    result.emplace_back(values.begin(), values.end());
  }
  return result;
}

}  // namespace maxtext
