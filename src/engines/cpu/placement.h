// Where a pool puts its blocks: offsets within a range, without memory behind them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace maxtext {

/// Blocks are placed best fit, lowest offset first, and freed neighbours join, so the touched part follows the peak of
/// live bytes and not the sum over sizes. Sizes are rounded up to 64 bytes.
class Placement {
 public:
  /// Offsets within [0, size).
  explicit Placement(std::int64_t size) { insert(0, size); }

  static std::int64_t rounded(std::int64_t bytes);

  /// Where a block of `bytes` lies from now on; nothing where no free range is as long.
  std::optional<std::int64_t> take(std::int64_t bytes);
  /// Frees what `take(bytes)` placed at `offset`.
  void give_back(std::int64_t offset, std::int64_t bytes);

  /// Bytes of blocks in use, with padding.
  std::int64_t used_bytes() const { return used_; }
  /// The highest end of any block so far.
  std::int64_t touched_bytes() const { return touched_; }

 private:
  void insert(std::int64_t offset, std::int64_t bytes);
  void erase(std::map<std::int64_t, std::int64_t>::iterator range);

  std::map<std::int64_t, std::int64_t> free_by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> free_by_size_;
  std::int64_t used_ = 0;
  std::int64_t touched_ = 0;
};

}  // namespace maxtext
