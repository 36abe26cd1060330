// Names near a misspelt one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

/// Edit distance with transpositions of neighbours (optimal string alignment): insertions, deletions, substitutions and
/// swaps each count 1.
int edit_distance(std::string_view a, std::string_view b);

/// Up to `count` candidates nearest to `name`, nearest first (ties in alphabetical order); those further than a third
/// of the name's length (at least 2) are left out, unless they contain the name or are contained in it.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> candidates,
                                       std::size_t count = 3);

/// "; did you mean a, b or c", or nothing when no candidate is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace maxtext
