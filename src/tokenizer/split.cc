#include "tokenizer/split.h"

#include <string>
#include <vector>

namespace maxtext {
namespace {

struct Part {
  Match range;
  bool matched = false;
};

using Emit = std::function<void(Match)>;

/// The whole text as parts, matches and what lies between them, in order; calls `take` with each.
template <typename Take>
void for_each_part(const Splitter& splitter, std::string_view text, RegexScratch& scratch, const Take& take) {
  Matches matches(splitter.pattern, text, scratch);
  std::size_t done = 0;
  while (const auto match = matches.next()) {
    if (done != match->begin) take(Part{{done, match->begin}, splitter.invert});
    take(Part{*match, !splitter.invert});
    done = match->end;
  }
  if (done != text.size()) take(Part{{done, text.size()}, splitter.invert});
}

/// Whether the part, in the order of joining, goes into the piece before it.
bool joins(SplitBehavior behavior, bool matched, bool previous_matched) {
  if (behavior == SplitBehavior::contiguous) return matched == previous_matched;
  return matched && !previous_matched;
}

/// Joins parts to the piece before them. Merging with the next piece is the same from the other end.
std::vector<Match> join(std::vector<Part> parts, SplitBehavior behavior) {
  const bool backwards = behavior == SplitBehavior::merged_with_next;
  std::vector<Match> pieces;
  bool previous_matched = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[backwards ? parts.size() - 1 - i : i];
    if (pieces.empty() || !joins(behavior, part.matched, previous_matched)) {
      pieces.push_back(part.range);
    } else if (backwards) {
      pieces.back().begin = part.range.begin;
    } else {
      pieces.back().end = part.range.end;
    }
    previous_matched = part.matched;
  }
  return backwards ? std::vector<Match>(pieces.rbegin(), pieces.rend()) : pieces;
}

}  // namespace

SplitBehavior parse_split_behavior(const JsonNode& node) {
  const std::string name = node.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  node.refuse("expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found '{}'", name);
}

void Splitter::split(std::string_view text, RegexScratch& scratch, const Emit& emit) const {
  if (behavior == SplitBehavior::isolated || behavior == SplitBehavior::removed) {
    const bool drops = behavior == SplitBehavior::removed;
    for_each_part(*this, text, scratch, [&](const Part& part) {
      if (part.range.begin != part.range.end && !(drops && part.matched)) emit(part.range);
    });
    return;
  }
  std::vector<Part> parts;
  for_each_part(*this, text, scratch, [&](const Part& part) { parts.push_back(part); });
  for (const Match& piece : join(std::move(parts), behavior)) {
    if (piece.begin != piece.end) emit(piece);
  }
}

}  // namespace maxtext
