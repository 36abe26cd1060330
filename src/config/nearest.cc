#include "config/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace maxtext {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> before(columns), previous(columns), current(columns);
  for (std::size_t j = 0; j < columns; ++j) current[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, previous);
    std::swap(previous, current);
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < columns; ++j) {
      const int substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
  }
  return current.back();
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> candidates,
                                       std::size_t count) {
  const int limit = std::max(2, static_cast<int>(name.size() / 3));
  std::vector<std::pair<int, std::string_view>> near;
  for (const std::string_view candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    const bool contained =
        name.size() >= 4 && candidate.size() >= 4 &&
        (candidate.find(name) != std::string_view::npos || name.find(candidate) != std::string_view::npos);
    if (distance <= limit || contained) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(count, near.size()); ++i) names.emplace_back(near[i].second);
  return names;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::vector<std::string> names = nearest_names(name, candidates);
  if (names.empty()) return "";
  std::string list = names[0];
  for (std::size_t i = 1; i < names.size(); ++i) list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return fmt::format("; did you mean {}", list);
}

}  // namespace maxtext
