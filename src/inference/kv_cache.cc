#include "inference/kv_cache.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr AxisSet kContext = Axis::context;
constexpr std::int64_t kSmallestBucket = 256;

/// Of the longest sequence on a device; one where it has none, since kernels want a key.
std::int64_t most_positions(const CacheOptions& options, int rank, int group_size) {
  return std::max<std::int64_t>(1, local_positions(options.max_length, options.page, rank, group_size));
}

/// Bytes of one position of one sequence in one layer, keys and values.
std::int64_t position_bytes(const ModelShape& shape, DType dtype) {
  const std::int64_t scale = dtype == DType::int8 ? dtype_size(DType::float32) : 0;
  return 2 * shape.kv_heads * (shape.head_dim * dtype_size(dtype) + scale);
}

}  // namespace

std::int64_t page_size(std::int64_t largest, std::int64_t max_length, int group_size) {
  if (group_size == 1) return largest;
  constexpr std::int64_t kGranule = 16;
  return std::min(largest, std::max(kGranule, max_length / group_size / kGranule * kGranule));
}

std::int64_t local_positions(std::int64_t length, std::int64_t page, int rank, int group_size) {
  const std::int64_t full = length / page;
  const std::int64_t pages = (full + group_size - 1 - rank) / group_size;
  return pages * page + (full % group_size == rank ? length % page : 0);
}

bool holds_position(std::int64_t position, std::int64_t page, int rank, int group_size) {
  return position / page % group_size == rank;
}

std::int64_t cache_capacity(std::int64_t length, std::int64_t most) {
  const auto bucket = std::bit_ceil(static_cast<std::uint64_t>(std::max(length, kSmallestBucket)));
  return std::min(static_cast<std::int64_t>(bucket), most);
}

std::int64_t cache_bytes(const ModelShape& shape, const CacheOptions& options, std::int64_t length, int group_size) {
  std::int64_t positions = 0;
  for (int rank = 0; rank < group_size; ++rank) {
    const std::int64_t local = local_positions(length, options.page, rank, group_size);
    const std::int64_t capacity = cache_capacity(local, most_positions(options, rank, group_size));
    for (const std::int64_t window : shape.layer_windows) positions += window > 0 ? window : capacity;
  }
  return options.sequences * positions * position_bytes(shape, options.dtype);
}

KeyValueCache::KeyValueCache(Engine& engine, const ModelShape& shape, const CacheOptions& options)
    : engine_(engine),
      shape_(shape),
      options_(options),
      rank_(engine.mesh().group_rank(engine.device(), kContext)),
      group_size_(engine.mesh().size(Axis::context)) {
  if (options.sequences < 1 || options.max_length < 1 || options.page < 1) {
    fail("a KV cache of {} sequences of {} positions in pages of {} is not possible", options.sequences,
         options.max_length, options.page);
  }
  capacity_ = capacity_for(1);
  for (const std::int64_t window : shape.layer_windows) layers_.push_back(allocate(window, capacity_));
}

std::int64_t KeyValueCache::capacity_for(std::int64_t local) const {
  // One program for all devices: what the first holds, the others may have to hold, too.
  const int rank = engine_.compiles_shapes() ? 0 : rank_;
  return cache_capacity(local, most_positions(options_, rank, group_size_));
}

LayerCache KeyValueCache::allocate(std::int64_t window, std::int64_t capacity) const {
  LayerCache layer;
  layer.ring = window > 0;
  layer.window = window;
  layer.group_size = layer.ring ? 1 : group_size_;
  const std::int64_t positions = layer.ring ? window : capacity;
  const TensorSpec rows{{options_.sequences, shape_.kv_heads, positions, shape_.head_dim}, options_.dtype};
  layer.keys = engine_.allocate_state(rows);
  layer.values = engine_.allocate_state(rows);
  if (options_.dtype == DType::int8) {
    const TensorSpec scales{{options_.sequences, shape_.kv_heads, positions}, DType::float32};
    layer.key_scales = engine_.allocate_state(scales);
    layer.value_scales = engine_.allocate_state(scales);
  }
  return layer;
}

std::vector<LayerCache> KeyValueCache::sequence(std::int64_t b) const {
  std::vector<LayerCache> one;
  for (const LayerCache& layer : layers_) one.push_back(layer.sequence(b));
  return one;
}

Tensor KeyValueCache::grown(const Tensor& old, std::int64_t capacity) const {
  if (!old.defined()) return {};
  TensorSpec more = old.spec();
  more.shape[2] = capacity - old.dim(2);
  return engine_.apply_one(Concat{.axis = 2}, {old, engine_.allocate(more)});
}

void KeyValueCache::reserve(std::int64_t length) {
  if (length > options_.max_length) fail("a KV cache for {} positions cannot hold {}", options_.max_length, length);
  const std::int64_t local = local_positions(length, options_.page, 0, group_size_);
  if (local <= capacity_) return;
  const std::int64_t capacity = capacity_for(local);
  for (LayerCache& layer : layers_) {
    if (layer.ring) continue;
    for (Tensor* tensor : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales}) {
      *tensor = grown(*tensor, capacity);
    }
    engine_.run_pending();
  }
  capacity_ = capacity;
}

std::int64_t KeyValueCache::bytes() const {
  std::int64_t total = 0;
  for (const LayerCache& layer : layers_) {
    for (const Tensor* tensor : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales}) {
      if (tensor->defined()) total += tensor->elements() * dtype_size(tensor->dtype());
    }
  }
  return total;
}

}  // namespace maxtext
