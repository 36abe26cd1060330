#include "config/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EditDistance, KnownDistances) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("steps", "stpes"), 1);  // neighbours swapped
  EXPECT_EQ(edit_distance("ca", "abc"), 3);       // the classic case of optimal string alignment
}

/// The recursive definition, with memory.
int brute_force(std::string_view a, std::string_view b, std::map<std::pair<std::size_t, std::size_t>, int>& memory) {
  if (a.empty() || b.empty()) return static_cast<int>(a.size() + b.size());
  const auto key = std::pair(a.size(), b.size());
  if (const auto known = memory.find(key); known != memory.end()) return known->second;
  int best = std::min({brute_force(a.substr(1), b, memory) + 1, brute_force(a, b.substr(1), memory) + 1,
                       brute_force(a.substr(1), b.substr(1), memory) + (a[0] == b[0] ? 0 : 1)});
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    best = std::min(best, brute_force(a.substr(2), b.substr(2), memory) + 1);
  }
  return memory[key] = best;
}

TEST(EditDistance, EqualsTheRecursiveDefinition) {
  std::mt19937 random(7);
  const auto word = [&] {
    std::string text(random() % 7, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string a = word();
    const std::string b = word();
    std::map<std::pair<std::size_t, std::size_t>, int> memory;
    EXPECT_EQ(edit_distance(a, b), brute_force(a, b, memory)) << a << " " << b;
  }
}

TEST(NearestNames, NearestFirstAndNoneThatAreFar) {
  const std::vector<std::string_view> names = {"learning_rate", "steps", "eval_steps", "packing"};
  EXPECT_THAT(nearest_names("stpes", names), ElementsAre("steps"));
  EXPECT_THAT(nearest_names("steps", names), ElementsAre("steps", "eval_steps"));
  EXPECT_THAT(nearest_names("leerning_rat", names), ElementsAre("learning_rate"));
  EXPECT_THAT(nearest_names("zzzzzz", names), IsEmpty());
  EXPECT_EQ(nearest_names("steps", names, 1).size(), 1U);
}

TEST(DidYouMean, ReadsAsASentence) {
  const std::vector<std::string_view> names = {"aaaa", "aaab", "aaac"};
  EXPECT_EQ(did_you_mean("aaaa", names), "; did you mean aaaa, aaab or aaac");
  EXPECT_EQ(did_you_mean("aaaa", std::span(names).first(1)), "; did you mean aaaa");
  EXPECT_EQ(did_you_mean("zzzzzz", names), "");
}

}  // namespace
}  // namespace maxtext
