// The KV cache of a model: one LayerCache per layer, grown by buckets, and the arrays that say where a token's key
// goes.
//
// With several devices along the context axis, positions are dealt to them page by page, pages of `page` positions in
// turn, so that every length is shared evenly. Layers with a sliding window keep a ring of their window on every
// device.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/cached_attention.h"
#include "config/model_shape.h"

namespace maxtext {

struct CacheOptions {
  std::int64_t sequences = 1;
  /// Longest sequence.
  std::int64_t max_length = 2048;
  DType dtype = DType::float32;  ///< float32, bfloat16, float16, or int8 with float32 scales
  /// Positions of a page; only with several devices.
  std::int64_t page = 512;
};

/// Positions of a page where at most `largest` are wanted. With several devices it is their share of max_length where
/// that is less, so that none is without a part of the longest sequence; a multiple of 16, rounded down, and not less.
std::int64_t page_size(std::int64_t largest, std::int64_t max_length, int group_size);

/// How many of the positions [0, length) device `rank` of `group_size` holds.
std::int64_t local_positions(std::int64_t length, std::int64_t page, int rank, int group_size);

/// Whether device `rank` holds `position`.
bool holds_position(std::int64_t position, std::int64_t page, int rank, int group_size);

/// The bucket for `length` local positions: the least power of two that holds them, at least 256, at most `most`.
std::int64_t cache_capacity(std::int64_t length, std::int64_t most);

class KeyValueCache {
 public:
  KeyValueCache(Engine& engine, const ModelShape& shape, const CacheOptions& options);

  std::vector<LayerCache>& layers() { return layers_; }
  /// All layers of one sequence, as views.
  std::vector<LayerCache> sequence(std::int64_t b) const;
  const CacheOptions& options() const { return options_; }
  int rank() const { return rank_; }
  int group_size() const { return group_size_; }

  /// Positions of layers without a window on this device. Devices whose programs are compiled have the same.
  std::int64_t capacity() const { return capacity_; }
  /// Makes room for sequences of `length`; grows layer by layer, so that no more than one layer is held twice.
  void reserve(std::int64_t length);

  /// Of this device.
  std::int64_t bytes() const;

 private:
  /// The bucket for `local` positions on this device.
  std::int64_t capacity_for(std::int64_t local) const;
  LayerCache allocate(std::int64_t window, std::int64_t capacity) const;
  Tensor grown(const Tensor& old, std::int64_t capacity) const;

  Engine& engine_;
  ModelShape shape_;
  CacheOptions options_;
  int rank_;
  int group_size_;
  std::int64_t capacity_ = 0;
  std::vector<LayerCache> layers_;
};

/// Bytes of the cache on all devices together for sequences of `length`, before anything is allocated.
std::int64_t cache_bytes(const ModelShape& shape, const CacheOptions& options, std::int64_t length, int group_size);

}  // namespace maxtext
