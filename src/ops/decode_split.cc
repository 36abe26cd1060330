#include "ops/decode_split.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

void check(std::int64_t kv_heads, int workers) {
  if (kv_heads < 1) fail("decode split: needs at least one KV head, not {}", kv_heads);
  if (workers < 1) fail("decode split: needs at least one worker, not {}", workers);
}

/// All positions of each KV head of each sequence.
std::vector<DecodeChunk> list_pieces(std::span<const DecodeRange> ranges, std::int64_t kv_heads) {
  std::vector<DecodeChunk> pieces;
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    const DecodeRange& range = ranges[b];
    for (std::int64_t h = 0; h < kv_heads && range.begin < range.end; ++h) {
      pieces.push_back({static_cast<std::int64_t>(b), h, range.begin, range.end, 0});
    }
  }
  return pieces;
}

std::int64_t total_length(std::span<const DecodeChunk> chunks) {
  std::int64_t total = 0;
  for (const DecodeChunk& chunk : chunks) total += chunk.length();
  return total;
}

bool is_divisible(const DecodeChunk& piece) { return piece.length() >= 2 * kShortestDecodeChunk; }

/// Chunks dealt whole.
class WholeDeal {
 public:
  /// No plan is better than `lowest`; near it improving ends.
  WholeDeal(std::vector<DecodeChunk> chunks, int workers, std::int64_t lowest)
      : chunks_(std::move(chunks)), loads_(static_cast<std::size_t>(workers), 0), lowest_(lowest) {
    std::ranges::stable_sort(chunks_, std::greater(), &DecodeChunk::length);
    for (DecodeChunk& chunk : chunks_) {
      chunk.worker = static_cast<int>(std::ranges::min_element(loads_) - loads_.begin());
      load(chunk.worker) += chunk.length();
    }
    while (improve()) {
    }
  }

  const std::vector<DecodeChunk>& chunks() const { return chunks_; }
  const std::vector<std::int64_t>& loads() const { return loads_; }
  std::int64_t longest() const { return std::ranges::max(loads_); }

 private:
  std::int64_t& load(int worker) { return loads_[static_cast<std::size_t>(worker)]; }

  /// One move of a chunk from the fullest worker, or exchange with another's, that lowers the larger of the two loads
  /// by the most; false where nothing is gained.
  bool improve() {
    const int fullest = static_cast<int>(std::ranges::max_element(loads_) - loads_.begin());
    // A plan is made for every layer and token: a share of 1/64 is not worth the search.
    if (load(fullest) <= lowest_ + lowest_ / 64) return false;
    std::int64_t best = 0;
    DecodeChunk* given = nullptr;
    DecodeChunk* taken = nullptr;
    int receiver = 0;
    const auto consider = [&](DecodeChunk* give, DecodeChunk* take, int other) {
      const std::int64_t moved = give->length() - (take == nullptr ? 0 : take->length());
      const std::int64_t gain = load(fullest) - std::max(load(fullest) - moved, load(other) + moved);
      if (gain <= best) return;
      best = gain;
      given = give;
      taken = take;
      receiver = other;
    };
    for (DecodeChunk& give : chunks_) {
      if (give.worker != fullest) continue;
      for (int other = 0; other < static_cast<int>(loads_.size()); ++other) {
        if (other != fullest) consider(&give, nullptr, other);
      }
      for (DecodeChunk& take : chunks_) {
        if (take.worker != fullest) consider(&give, &take, take.worker);
      }
    }
    if (given == nullptr) return false;
    move(*given, receiver);
    if (taken != nullptr) move(*taken, fullest);
    return true;
  }

  void move(DecodeChunk& chunk, int worker) {
    load(chunk.worker) -= chunk.length();
    load(worker) += chunk.length();
    chunk.worker = worker;
  }

  std::vector<DecodeChunk> chunks_;
  std::vector<std::int64_t> loads_;
  std::int64_t lowest_;
};

/// How much of a piece's last `left` positions a worker with `room` can take, so that no chunk is too short.
std::int64_t portion(std::int64_t left, std::int64_t room) {
  if (left <= room) return left;
  const std::int64_t taken = std::min(room, left - kShortestDecodeChunk);
  return taken < kShortestDecodeChunk ? 0 : taken;
}

/// The first piece of which a worker can take so much that it is full or has room for more; else the piece of which it
/// can take most; the end where there is none. `left`: what is left of each piece.
std::size_t choose(std::span<const std::int64_t> left, std::int64_t room) {
  std::size_t best = left.size();
  std::int64_t most = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::int64_t taken = left[i] == 0 ? 0 : portion(left[i], room);
    if (taken > most) {
      most = taken;
      best = i;
    }
    if (taken > 0 && (taken == room || room - taken >= kShortestDecodeChunk)) return i;
  }
  return best;
}

/// The pieces cut such that no worker has more than `limit`, `loads` included, or nothing where they do not fit.
std::optional<std::vector<DecodeChunk>> pour(std::span<const DecodeChunk> pieces, std::span<const std::int64_t> loads,
                                             std::int64_t limit) {
  std::vector<DecodeChunk> chunks;
  std::int64_t rest = total_length(pieces);
  std::vector<std::int64_t> left;
  for (const DecodeChunk& piece : pieces) left.push_back(piece.length());
  for (std::size_t worker = 0; worker < loads.size() && rest > 0; ++worker) {
    std::int64_t room = limit - loads[worker];
    for (std::size_t i = choose(left, room); i < left.size(); i = choose(left, room)) {
      const std::int64_t taken = portion(left[i], room);
      const std::int64_t begin = pieces[i].end - left[i];
      chunks.push_back({pieces[i].sequence, pieces[i].kv_head, begin, begin + taken, static_cast<int>(worker)});
      left[i] -= taken;
      room -= taken;
      rest -= taken;
    }
  }
  if (rest > 0) return std::nullopt;
  return chunks;
}

/// The lowest limit at or above `lowest` that holds everything, by bisection.
std::vector<DecodeChunk> pour_lowest(std::span<const DecodeChunk> pieces, std::span<const std::int64_t> loads,
                                     std::int64_t lowest) {
  std::int64_t low = lowest - 1;
  std::int64_t step = 1;
  std::optional<std::vector<DecodeChunk>> best;
  while (!(best = pour(pieces, loads, low + step)).has_value()) {
    low += step;
    step *= 2;
  }
  std::int64_t high = low + step;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (auto chunks = pour(pieces, loads, middle)) {
      best = std::move(chunks);
      high = middle;
    } else {
      low = middle;
    }
  }
  return *best;
}

/// Whole pieces first, the others into what room is left.
std::vector<DecodeChunk> poured(std::span<const DecodeChunk> pieces, int workers, std::int64_t lowest) {
  std::vector<DecodeChunk> whole;
  std::vector<DecodeChunk> divisible;
  for (const DecodeChunk& piece : pieces) (is_divisible(piece) ? divisible : whole).push_back(piece);
  const WholeDeal deal(std::move(whole), workers, lowest);
  std::vector<DecodeChunk> chunks = deal.chunks();
  if (divisible.empty()) return chunks;
  for (const DecodeChunk& chunk : pour_lowest(divisible, deal.loads(), std::max(lowest, deal.longest()))) {
    chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace

std::vector<DecodeChunk> plan_decode_split(std::span<const DecodeRange> ranges, std::int64_t kv_heads, int workers) {
  check(kv_heads, workers);
  const std::vector<DecodeChunk> pieces = list_pieces(ranges, kv_heads);
  if (pieces.empty()) return {};
  const std::int64_t lowest = (total_length(pieces) + workers - 1) / workers;
  std::vector<DecodeChunk> chunks = poured(pieces, workers, lowest);
  std::ranges::sort(chunks, [](const DecodeChunk& a, const DecodeChunk& b) {
    return std::tie(a.sequence, a.kv_head, a.begin) < std::tie(b.sequence, b.kv_head, b.begin);
  });
  return chunks;
}

std::vector<DecodeChunk> plan_fixed_chunks(std::span<const DecodeRange> ranges, std::int64_t kv_heads, int workers,
                                           std::int64_t chunk) {
  check(kv_heads, workers);
  if (chunk < 1) fail("decode split: a chunk needs at least one position, not {}", chunk);
  std::vector<DecodeChunk> chunks;
  std::int64_t total = 0;
  for (const DecodeChunk& piece : list_pieces(ranges, kv_heads)) {
    total += piece.length();
    for (DecodeChunk next = piece; next.begin < piece.end; next.begin = next.end) {
      next.end = std::min(piece.end, (next.begin / chunk + 1) * chunk);
      chunks.push_back(next);
    }
  }
  std::int64_t before = 0;
  for (DecodeChunk& next : chunks) {
    next.worker = static_cast<int>((before + next.length() / 2) * workers / total);
    before += next.length();
  }
  return chunks;
}

std::int64_t longest_worker(std::span<const DecodeChunk> chunks, int workers) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(workers), 0);
  for (const DecodeChunk& chunk : chunks) loads[static_cast<std::size_t>(chunk.worker)] += chunk.length();
  return std::ranges::max(loads);
}

}  // namespace maxtext
