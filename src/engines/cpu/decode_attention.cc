// Split-K decode attention. The keys that anyone sees are dealt to the threads (ops/decode_split.h), each thread walks
// its chunks and leaves a state per chunk and query row in float32, and after a barrier rows are merged in ascending
// position. All query rows of a KV head (T positions × the group's heads) meet a key while it is in registers or cache,
// so K and V are read from memory once.
#include <omp.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "engines/cpu/attention_state.h"
#include "engines/cpu/decode_kernel.h"
#include "engines/cpu/kernels/decode_tiles.h"
#include "engines/cpu/run.h"
#include "ops/decode_attention.h"
#include "ops/decode_split.h"

namespace maxtext {
namespace {

/// Keys of a block: all are scored before the first value is read, so that memory is read in long streams. Rows beyond
/// the first tile read their keys again, from cache, where a block has to fit then.
constexpr std::int64_t long_block_keys = 2048;
constexpr std::int64_t shared_block_bytes = std::int64_t{256} << 10;
/// Of scores, per thread.
constexpr std::int64_t score_elements = std::int64_t{1} << 15;

std::int64_t choose_block_keys(std::int64_t rows, std::int64_t row_bytes) {
  std::int64_t keys = long_block_keys;
  if (rows > 4) keys = std::min(keys, std::min(shared_block_bytes / row_bytes, score_elements / rows));
  return std::max<std::int64_t>(keys / 16 * 16, 64);
}

void check_shape(const DecodeShape& shape) {
  const bool sizes = shape.batch >= 0 && shape.query_length > 0 && shape.head_dim > 0 && shape.capacity > 0;
  if (!sizes || shape.kv_heads <= 0 || shape.query_heads <= 0 || shape.query_heads % shape.kv_heads != 0) {
    fail("decode attention: sizes do not fit: batch {}, T {}, {} query heads on {} KV heads of {}, capacity {}",
         shape.batch, shape.query_length, shape.query_heads, shape.kv_heads, shape.head_dim, shape.capacity);
  }
}

class Decode {
 public:
  Decode(const DecodeShape& shape, const DecodeArrays& arrays, const AttentionExecution& execution)
      : shape_(shape),
        arrays_(arrays),
        kernels_(decode_tiles(execution.instruction_set)),
        threads_(execution.threads > 0 ? execution.threads : omp_get_max_threads()),
        group_(shape.query_heads / shape.kv_heads),
        rows_(shape.query_length * group_),
        // Three rows are cheaper as a tile of four than as tiles of two and one.
        tiled_rows_(rows_ % 4 == 3 ? rows_ + 1 : rows_),
        padded_dim_((shape.head_dim + decode_padding - 1) / decode_padding * decode_padding),
        block_keys_(choose_block_keys(tiled_rows_, shape.head_dim * dtype_size(shape.cache_dtype))) {}

  std::int64_t workspace_bytes() {
    Carver measure;
    carve(measure, most_chunks());
    return measure.bytes();
  }

  void run(Workspace& workspace) {
    for (std::int64_t b = 0; b < shape_.batch; ++b) ranges_.push_back(seen_range(b));
    chunks_ = shape_.batch_invariant ? plan_fixed_chunks(ranges_, shape_.kv_heads, threads_, fixed_decode_chunk)
                                     : plan_decode_split(ranges_, shape_.kv_heads, threads_);
    find_first_chunks();
    const Workspace::Lease lease = workspace.take(workspace_bytes());
    Carver cut(lease.data());
    carve(cut, static_cast<std::int64_t>(chunks_.size()));
    const std::int64_t pairs = shape_.batch * shape_.kv_heads;
#pragma omp parallel num_threads(threads_)
    {
      const int team = omp_get_num_threads();
      for (int worker = omp_get_thread_num(); worker < threads_; worker += team) read_chunks(worker);
#pragma omp barrier
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < pairs * rows_; ++i) merge_row(i / rows_, i % rows_);
    }
  }

 private:
  struct Scratch {
    float *q, *scores, *edge, *natural;
    std::int64_t *begin, *end, *run_begin, *run_end;
  };

  std::int64_t most_chunks() const {
    const std::int64_t pairs = shape_.batch * shape_.kv_heads;
    return shape_.batch_invariant ? pairs * (shape_.capacity / fixed_decode_chunk + 2) : pairs + threads_;
  }

  void carve(Carver& carver, std::int64_t chunks) {
    states_o_ = carver.array<float>(chunks * tiled_rows_ * padded_dim_);
    states_l_ = carver.array<float>(chunks * tiled_rows_);
    states_m_ = carver.array<float>(chunks * tiled_rows_);
    // Each thread's scratch is whole pages and some lines, so that none shares lines or cache sets by rule.
    Carver one;
    carve_scratch(one);
    scratch_bytes_ = one.bytes_per_thread();
    scratch_ = carver.array<std::byte>(threads_ * scratch_bytes_);
  }

  Scratch carve_scratch(Carver& carver) const {
    Scratch scratch;
    scratch.q = carver.array<float>(tiled_rows_ * padded_dim_);
    scratch.scores = carver.array<float>(decode_score_elements(tiled_rows_, block_keys_));
    scratch.edge = carver.array<float>(decode_score_elements(1, block_keys_));
    scratch.natural = carver.array<float>(padded_dim_);
    scratch.begin = carver.array<std::int64_t>(tiled_rows_);
    scratch.end = carver.array<std::int64_t>(tiled_rows_);
    scratch.run_begin = carver.array<std::int64_t>(tiled_rows_);
    scratch.run_end = carver.array<std::int64_t>(tiled_rows_);
    return scratch;
  }

  /// Positions that query row t of sequence b sees.
  DecodeRange seen_by(std::int64_t b, std::int64_t t) const {
    const std::int64_t length = arrays_.kv_seq_len[b];
    const std::int64_t position = length - shape_.query_length + t;
    DecodeRange range{std::max<std::int64_t>(arrays_.start_idx[b], 0), position + 1};
    if (shape_.window > 0) range.begin = std::max(range.begin, position - shape_.window + 1);
    if (shape_.ring) {
      range.begin = std::max(range.begin, length - shape_.capacity);
    } else {
      range.end = std::min(range.end, shape_.capacity);
    }
    return range;
  }

  /// Both ends ascend with t, and neighbours' ranges leave no gap.
  DecodeRange seen_range(std::int64_t b) const {
    return {seen_by(b, 0).begin, seen_by(b, shape_.query_length - 1).end};
  }

  /// Chunks of a KV head are neighbours: first_chunk_[pair] … first_chunk_[pair + 1].
  void find_first_chunks() {
    first_chunk_.assign(static_cast<std::size_t>(shape_.batch * shape_.kv_heads) + 1, 0);
    for (const DecodeChunk& chunk : chunks_) {
      ++first_chunk_[static_cast<std::size_t>(chunk.sequence * shape_.kv_heads + chunk.kv_head) + 1];
    }
    for (std::size_t i = 1; i < first_chunk_.size(); ++i) first_chunk_[i] += first_chunk_[i - 1];
  }

  void read_chunks(int worker) const {
    Carver carver(scratch_ + omp_get_thread_num() * scratch_bytes_);
    const Scratch scratch = carve_scratch(carver);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i].worker == worker) read_chunk(chunks_[i], static_cast<std::int64_t>(i), scratch);
    }
  }

  void read_chunk(const DecodeChunk& chunk, std::int64_t index, const Scratch& scratch) const {
    pack_rows(chunk, scratch);
    const std::int64_t first = index * tiled_rows_;
    float* const o = states_o_ + first * padded_dim_;
    std::fill(o, o + tiled_rows_ * padded_dim_, 0.0F);
    std::fill(states_l_ + first, states_l_ + first + tiled_rows_, 0.0F);
    std::fill(states_m_ + first, states_m_ + first + tiled_rows_, -std::numeric_limits<float>::infinity());
    for (std::int64_t position = chunk.begin; position < chunk.end;) {
      const std::int64_t slot = shape_.ring ? position % shape_.capacity : position;
      const std::int64_t keys = std::min(chunk.end - position, shape_.capacity - slot);
      for (std::int64_t r = 0; r < tiled_rows_; ++r) {
        scratch.run_begin[r] = scratch.begin[r] - position;
        scratch.run_end[r] = scratch.end[r] - position;
      }
      kernels_.attend(shape_.cache_dtype, {.rows = tiled_rows_,
                                           .head_dim = shape_.head_dim,
                                           .padded_dim = padded_dim_,
                                           .q = scratch.q,
                                           .k = cache_rows(arrays_.k, chunk, slot),
                                           .v = cache_rows(arrays_.v, chunk, slot),
                                           .begin = scratch.run_begin,
                                           .end = scratch.run_end,
                                           .keys = keys,
                                           .softcap = shape_.softcap,
                                           .block_keys = block_keys_,
                                           .scores = scratch.scores,
                                           .edge = scratch.edge,
                                           .o = o,
                                           .l = states_l_ + first,
                                           .m = states_m_ + first});
      position += keys;
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      kernels_.unpack_output(shape_.cache_dtype, o + r * padded_dim_, shape_.head_dim, scratch.natural);
      std::copy(scratch.natural, scratch.natural + shape_.head_dim, o + r * padded_dim_);
    }
  }

  /// Row t · group + g; the row that pads a tile is a zero beside the last one.
  void pack_rows(const DecodeChunk& chunk, const Scratch& scratch) const {
    for (std::int64_t r = 0; r < tiled_rows_; ++r) {
      const std::int64_t real = std::min(r, rows_ - 1);
      const DecodeRange range = seen_by(chunk.sequence, real / group_);
      scratch.begin[r] = range.begin;
      scratch.end[r] = range.end;
      kernels_.pack_query(shape_.cache_dtype, arrays_.q + query_row(chunk.sequence, chunk.kv_head, real),
                          r < rows_ ? static_cast<float>(shape_.scale) : 0.0F, shape_.head_dim, padded_dim_,
                          scratch.q + r * padded_dim_);
    }
  }

  /// Offset in q and o.
  std::int64_t query_row(std::int64_t b, std::int64_t h, std::int64_t row) const {
    const std::int64_t token = b * shape_.query_length + row / group_;
    return (token * shape_.query_heads + h * group_ + row % group_) * shape_.head_dim;
  }

  CacheRows cache_rows(const CacheView& view, const DecodeChunk& chunk, std::int64_t slot) const {
    const std::int64_t bytes = dtype_size(shape_.cache_dtype);
    CacheRows rows;
    rows.data =
        view.data +
        (chunk.sequence * view.batch_stride + chunk.kv_head * view.head_stride + slot * view.slot_stride) * bytes;
    rows.stride = view.slot_stride * bytes;
    if (shape_.cache_dtype == DType::int8) {
      rows.scales = view.scales + chunk.sequence * view.scale_batch_stride + chunk.kv_head * view.scale_head_stride +
                    slot * view.scale_slot_stride;
      rows.scale_stride = view.scale_slot_stride;
    }
    return rows;
  }

  void merge_row(std::int64_t pair, std::int64_t row) const {
    const std::int64_t b = pair / shape_.kv_heads;
    const std::int64_t head = pair % shape_.kv_heads * group_ + row % group_;
    const std::int64_t first = first_chunk_[static_cast<std::size_t>(pair)];
    const std::int64_t count = first_chunk_[static_cast<std::size_t>(pair) + 1] - first;
    const auto state = [&](std::int64_t i) {
      const std::int64_t at = (first + i) * tiled_rows_ + row;
      return AttentionState{states_o_ + at * padded_dim_, states_l_[at], states_m_[at]};
    };
    const std::int64_t residual = (b * shape_.query_heads + head) * shape_.query_length + row / group_;
    merge_states(count, state, arrays_.sinks == nullptr ? nullptr : arrays_.sinks + head, shape_.normalize,
                 shape_.head_dim, arrays_.o + query_row(b, pair % shape_.kv_heads, row), arrays_.l + residual,
                 arrays_.m + residual);
  }

  const DecodeShape& shape_;
  const DecodeArrays& arrays_;
  const DecodeTiles& kernels_;
  int threads_;
  std::int64_t group_;
  std::int64_t rows_;  ///< query rows of a KV head
  std::int64_t tiled_rows_;
  std::int64_t padded_dim_;
  std::int64_t block_keys_;
  std::vector<DecodeRange> ranges_;
  std::vector<DecodeChunk> chunks_;
  std::vector<std::int64_t> first_chunk_;
  float* states_o_ = nullptr;
  float* states_l_ = nullptr;
  float* states_m_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
};

DecodeShape shape_of(const DecodeAttention& op, const TensorSpec& q, const TensorSpec& k) {
  return {.batch = q.shape[0],
          .query_length = q.shape[1],
          .query_heads = q.shape[2],
          .kv_heads = k.shape[1],
          .head_dim = q.shape[3],
          .capacity = k.shape[2],
          .cache_dtype = k.dtype,
          .scale = op.scale,
          .window = op.window,
          .softcap = op.softcap,
          .ring = op.ring,
          .normalize = op.normalize,
          .batch_invariant = op.batch_invariant};
}

}  // namespace

CacheView head_major_cache(const std::byte* data, std::int64_t kv_heads, std::int64_t capacity, std::int64_t head_dim,
                           const float* scales) {
  return {.data = data,
          .batch_stride = kv_heads * capacity * head_dim,
          .head_stride = capacity * head_dim,
          .slot_stride = head_dim,
          .scales = scales,
          .scale_batch_stride = kv_heads * capacity,
          .scale_head_stride = capacity,
          .scale_slot_stride = 1};
}

CacheView slot_major_cache(const std::byte* data, std::int64_t kv_heads, std::int64_t capacity, std::int64_t head_dim,
                           const float* scales) {
  return {.data = data,
          .batch_stride = kv_heads * capacity * head_dim,
          .head_stride = head_dim,
          .slot_stride = kv_heads * head_dim,
          .scales = scales,
          .scale_batch_stride = kv_heads * capacity,
          .scale_head_stride = 1,
          .scale_slot_stride = kv_heads};
}

void decode_attention(const DecodeShape& shape, const DecodeArrays& arrays, Workspace& workspace,
                      const AttentionExecution& execution) {
  check_shape(shape);
  Decode(shape, arrays, execution).run(workspace);
}

std::int64_t decode_attention_workspace(const DecodeShape& shape, const AttentionExecution& execution) {
  check_shape(shape);
  return Decode(shape, {}, execution).workspace_bytes();
}

void run(CpuContext& context, const DecodeAttention& op, Inputs inputs, Outputs outputs) {
  const DecodeShape shape = shape_of(op, inputs[0].spec(), inputs[1].spec());
  const bool quantized = shape.cache_dtype == DType::int8;
  const auto cache = [&](std::size_t rows, std::size_t scales) {
    return head_major_cache(data<std::byte>(inputs[rows]), shape.kv_heads, shape.capacity, shape.head_dim,
                            quantized ? data<float>(inputs[scales]) : nullptr);
  };
  decode_attention(shape,
                   {.q = data<float>(inputs[0]),
                    .k = cache(1, 5),
                    .v = cache(2, 6),
                    .start_idx = data<std::int32_t>(inputs[3]),
                    .kv_seq_len = data<std::int32_t>(inputs[4]),
                    .sinks = op.has_sinks ? data<float>(inputs[quantized ? 7 : 5]) : nullptr,
                    .o = data<float>(outputs[0]),
                    .l = data<float>(outputs[1]),
                    .m = data<float>(outputs[2])},
                   context.workspace);
}

OpScratch op_scratch(const DecodeAttention& op, InputSpecs inputs, int threads) {
  return {decode_attention_workspace(shape_of(op, inputs[0], inputs[1]), {.threads = threads}), {}};
}

}  // namespace maxtext
