// Reordering is one function: chunks of the sequence → devices of the context axis.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace maxtext {

/// How chunks of the sequence are dealt to the devices of the context axis.
enum class ReorderStrategy {
  none,             ///< device i gets the i-th contiguous part
  dual_chunk_swap,  ///< 2·cp chunks, device i gets i and 2cp-1-i (MaxText's, Megatron's zigzag)
  striped,          ///< stripes of a few tokens dealt round robin (Striped Attention, arXiv 2311.09431)
  balanced,         ///< fixed chunks, equal counts per device, largest attention area first (see deal_balanced)
  automatic         ///< the one of the above with the least max/mean area (see choose_strategy)
};

/// "none", "dual_chunk_swap", "striped", "balanced", "auto": the values of `context_parallel_reorder_strategy`, and
/// `none` for load balancing switched off.
std::string_view reorder_strategy_name(ReorderStrategy strategy);

/// The inverse of reorder_strategy_name. Throws ConfigError that lists the names.
ReorderStrategy parse_reorder_strategy(std::string_view name);

/// The tokens of a row cut into chunks such that any way of giving every device equally many chunks gives it equally
/// many slots: `full` chunks of `chunk` tokens per device, and, when `chunk` does not divide `slots`, one shorter chunk
/// per device. The shorter ones lie at the tail. So no strategy needs more padding than another, and the shape of a
/// batch depends on configuration only, never on the documents in it.
struct ChunkGrid {
  std::int64_t slots = 1;  ///< per device
  int devices = 1;
  std::int64_t chunk = 1;  ///< 1..slots

  std::int64_t full() const { return slots / chunk; }
  std::int64_t remainder() const { return slots % chunk; }
  std::int64_t full_chunks() const { return full() * devices; }
  std::int64_t chunks() const { return full_chunks() + (remainder() > 0 ? devices : 0); }
  /// First token of `index`; of chunks(): the padded length.
  std::int64_t start(std::int64_t index) const {
    const std::int64_t whole = index < full_chunks() ? index : full_chunks();
    return whole * chunk + (index - whole) * remainder();
  }
  /// start(0..chunks()).
  std::vector<std::int64_t> starts() const;
  bool operator==(const ChunkGrid&) const = default;
};

/// Which device has which chunk of a row.
struct Deal {
  ChunkGrid grid;
  std::vector<std::int32_t> device;  ///< [chunks]
};

/// The deals that ignore what is in the row: none, dual_chunk_swap (`slots` must be even) and striped (stripes of
/// min(stripe, slots) tokens; 1 is MaxText's and Transformer Engine's definition). One device has everything in one
/// chunk. Throws Error for the other strategies.
Deal deal_fixed(ReorderStrategy strategy, std::int64_t slots, int devices, std::int64_t stripe);

}  // namespace maxtext
