// Cutting a text at the matches of a pattern.
#pragma once

#include <functional>
#include <string_view>

#include "tokenizer/json_node.h"
#include "tokenizer/pattern.h"

namespace maxtext {

/// What becomes of a match: it is dropped, is a piece of its own, joins the piece before or after it, or joins matches
/// next to it.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Throws ConfigError for another name than Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous.
SplitBehavior parse_split_behavior(const JsonNode& node);

struct Splitter {
  const Pattern& pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  /// What lies between the matches counts as matched, and the matches as not.
  bool invert = false;

  /// Calls `emit` with the pieces of `text` that are not empty, in order.
  void split(std::string_view text, RegexScratch& scratch, const std::function<void(Match)>& emit) const;
};

}  // namespace maxtext
