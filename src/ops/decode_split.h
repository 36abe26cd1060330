// How the keys of a decode step are dealt to workers. Pure: an engine plans from the lengths it finds in the step's
// arrays, and results do not depend on the plan beyond rounding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// A chunk of fewer keys is not worth a state of its own.
inline constexpr std::int64_t kShortestDecodeChunk = 128;

/// Positions [begin, end) of a sequence that some query row sees; empty where end <= begin.
struct DecodeRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Positions [begin, end) of one sequence's KV head, read by one worker.
struct DecodeChunk {
  std::int64_t sequence = 0;
  std::int64_t kv_head = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int worker = 0;

  std::int64_t length() const { return end - begin; }
  bool operator==(const DecodeChunk&) const = default;
};

/// Chunks that cover every range of every KV head exactly once, in ascending (sequence, kv_head, begin), such that the
/// worker with the most positions has as few as possible. Every position costs the same bytes, so positions are what is
/// counted. A sequence's KV head of 2 · kShortestDecodeChunk positions or more may be cut, into chunks of no fewer than
/// kShortestDecodeChunk; shorter ones are dealt whole.
///
/// Whole ones go, longest first, to the worker with the least; then moves and exchanges that lower the maximum. The
/// others are poured into what room is left below a limit, cut where a worker is full (McNaughton's wrap-around rule,
/// which is optimal where chunks may have any length), in order unless another piece fills a worker better; the lowest
/// limit that holds everything is found by bisection. The longest worker is the best that any split counts of equal
/// parts can give, or better, but for cases where chunks cannot be shorter; there it is within kShortestDecodeChunk of
/// it. (Trying equal parts as well finds the best of these, too; for a plan of every layer and token that costs more
/// than the few positions are worth.) There are at most `workers` cuts: a worker that cuts a piece is full. Throws
/// Error for fewer than one worker or KV head.
std::vector<DecodeChunk> plan_decode_split(std::span<const DecodeRange> ranges, std::int64_t kv_heads, int workers);

/// Chunks cut at the multiples of `chunk` positions and nowhere else, whatever else is in the batch; runs of them are
/// dealt to workers in order. Throws Error for fewer than one worker, KV head or position of a chunk.
std::vector<DecodeChunk> plan_fixed_chunks(std::span<const DecodeRange> ranges, std::int64_t kv_heads, int workers,
                                           std::int64_t chunk);

/// Positions that the busiest worker reads.
std::int64_t longest_worker(std::span<const DecodeChunk> chunks, int workers);

}  // namespace maxtext
