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

/// What is not cut yet: all positions of one KV head of one sequence.
struct Piece {
  DecodeChunk chunk;
  bool whole = true;  ///< too short to be cut
};

std::vector<Piece> list_pieces(std::span<const DecodeRange> ranges, std::int64_t kv_heads) {
  std::vector<Piece> pieces;
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    const DecodeRange& range = ranges[b];
    if (range.end <= range.begin) continue;
    const bool whole = range.end - range.begin < 2 * kShortestDecodeChunk;
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      pieces.push_back({{static_cast<std::int64_t>(b), h, range.begin, range.end, 0}, whole});
    }
  }
  return pieces;
}

class Deal {
 public:
  Deal(std::vector<Piece> pieces, int workers)
      : pieces_(std::move(pieces)), loads_(static_cast<std::size_t>(workers), 0) {}

  std::vector<DecodeChunk> run() {
    deal_whole_pieces();
    while (improve()) {
    }
    std::vector<DecodeChunk> chunks = pour_best();
    for (const Piece& piece : pieces_) {
      if (piece.whole) chunks.push_back(piece.chunk);
    }
    std::ranges::sort(chunks, [](const DecodeChunk& a, const DecodeChunk& b) {
      return std::tie(a.sequence, a.kv_head, a.begin) < std::tie(b.sequence, b.kv_head, b.begin);
    });
    return chunks;
  }

 private:
  std::int64_t& load(int worker) { return loads_[static_cast<std::size_t>(worker)]; }

  void deal_whole_pieces() {
    for (Piece& piece : pieces_) {
      if (piece.whole) {
        whole_.push_back(&piece.chunk);
      } else {
        divisible_.push_back(piece.chunk);
      }
      (piece.whole ? whole_total_ : divisible_total_) += piece.chunk.length();
    }
    std::ranges::stable_sort(whole_, std::greater(), [](const DecodeChunk* chunk) { return chunk->length(); });
    for (DecodeChunk* const chunk : whole_) {
      chunk->worker = static_cast<int>(std::ranges::min_element(loads_) - loads_.begin());
      load(chunk->worker) += chunk->length();
    }
  }

  /// No plan is better than this.
  std::int64_t lowest_limit() const {
    const auto workers = static_cast<std::int64_t>(loads_.size());
    return (whole_total_ + divisible_total_ + workers - 1) / workers;
  }

  /// One move of a whole piece from the fullest worker, or exchange with another's, that lowers the larger of the two
  /// loads by the most; false where there is none or nothing is gained.
  bool improve() {
    const int fullest = static_cast<int>(std::ranges::max_element(loads_) - loads_.begin());
    if (load(fullest) <= lowest_limit()) return false;
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
    for (DecodeChunk* const give : whole_) {
      if (give->worker != fullest) continue;
      for (int other = 0; other < static_cast<int>(loads_.size()); ++other) {
        if (other != fullest) consider(give, nullptr, other);
      }
      for (DecodeChunk* const take : whole_) {
        if (take->worker != fullest) consider(give, take, take->worker);
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

  /// How much of a piece's last `left` positions a worker with `room` can take, so that no chunk is too short.
  static std::int64_t portion(std::int64_t left, std::int64_t room) {
    if (left <= room) return left;
    const std::int64_t taken = std::min(room, left - kShortestDecodeChunk);
    return taken < kShortestDecodeChunk ? 0 : taken;
  }

  /// The first piece of which a worker can take so much that it is full or has room for more; else the piece of which
  /// it can take most; the end where there is none. `left`: what is left of each piece.
  static std::size_t choose(std::span<const std::int64_t> left, std::int64_t room) {
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

  /// The divisible pieces cut such that no worker has more than `limit`, or nothing where they do not fit.
  std::optional<std::vector<DecodeChunk>> pour(std::int64_t limit) const {
    std::vector<DecodeChunk> chunks;
    std::int64_t rest = divisible_total_;
    std::vector<std::int64_t> left;
    for (const DecodeChunk& piece : divisible_) left.push_back(piece.length());
    for (int worker = 0; worker < static_cast<int>(loads_.size()) && rest > 0; ++worker) {
      std::int64_t room = limit - loads_[static_cast<std::size_t>(worker)];
      for (std::size_t i = choose(left, room); i < left.size(); i = choose(left, room)) {
        const std::int64_t taken = portion(left[i], room);
        const std::int64_t begin = divisible_[i].end - left[i];
        chunks.push_back({divisible_[i].sequence, divisible_[i].kv_head, begin, begin + taken, worker});
        left[i] -= taken;
        room -= taken;
        rest -= taken;
      }
    }
    if (rest > 0) return std::nullopt;
    return chunks;
  }

  std::vector<DecodeChunk> pour_best() const {
    if (divisible_total_ == 0) return {};
    std::int64_t low = std::max(lowest_limit(), std::ranges::max(loads_)) - 1;
    std::int64_t step = 1;
    std::optional<std::vector<DecodeChunk>> best;
    while (!(best = pour(low + step)).has_value()) {
      low += step;
      step *= 2;
    }
    std::int64_t high = low + step;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (auto chunks = pour(middle)) {
        best = std::move(chunks);
        high = middle;
      } else {
        low = middle;
      }
    }
    return *best;
  }

  std::vector<Piece> pieces_;
  std::vector<DecodeChunk*> whole_;
  std::vector<DecodeChunk> divisible_;
  std::vector<std::int64_t> loads_;  ///< of whole pieces
  std::int64_t whole_total_ = 0;
  std::int64_t divisible_total_ = 0;
};

}  // namespace

std::vector<DecodeChunk> plan_decode_split(std::span<const DecodeRange> ranges, std::int64_t kv_heads, int workers) {
  check(kv_heads, workers);
  return Deal(list_pieces(ranges, kv_heads), workers).run();
}

std::vector<DecodeChunk> plan_fixed_chunks(std::span<const DecodeRange> ranges, std::int64_t kv_heads, int workers,
                                           std::int64_t chunk) {
  check(kv_heads, workers);
  if (chunk < 1) fail("decode split: a chunk needs at least one position, not {}", chunk);
  std::vector<DecodeChunk> chunks;
  std::int64_t total = 0;
  for (const Piece& piece : list_pieces(ranges, kv_heads)) {
    total += piece.chunk.length();
    for (DecodeChunk next = piece.chunk; next.begin < piece.chunk.end; next.begin = next.end) {
      next.end = std::min(piece.chunk.end, (next.begin / chunk + 1) * chunk);
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
