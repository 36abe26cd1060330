#include "config/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "config/config.h"

namespace maxtext {
namespace {

TEST(Keys, EveryDeclarationIsComplete) {
  for (const Key& key : all_keys()) {
    SCOPED_TRACE(key.name);
    EXPECT_FALSE(key.name.empty());
    for (const char c : key.name) EXPECT_TRUE(std::islower(c) || std::isdigit(c) || c == '_');
    EXPECT_FALSE(key.group.empty());
    EXPECT_FALSE(key.help.empty());
    EXPECT_NE(key.help.back(), '.') << "the printers add it";
    EXPECT_TRUE(key.status != KeyStatus::ignored || key.type() == ValueType::text);
    for (const std::string& word : key.later) {
      EXPECT_EQ(std::count(key.allowed.begin(), key.allowed.end(), word), 0) << word;
    }
  }
}

TEST(Keys, EveryDefaultIsAccepted) {
  Config config;
  for (const Key& key : all_keys()) {
    std::string text = format_value(key.default_value);
    if (key.type() == ValueType::text) text = std::get<std::string>(key.default_value);
    EXPECT_NO_THROW(config.set(key.name, text, {SourceKind::command_line, "command line"})) << key.name;
    EXPECT_EQ(config.value(key.name), key.default_value) << key.name;
  }
}

TEST(Keys, GroupsAreContiguous) {
  std::set<std::string> finished;
  std::string current;
  for (const Key& key : all_keys()) {
    if (key.group == current) continue;
    EXPECT_TRUE(finished.insert(key.group).second) << key.group << " appears again at " << key.name;
    current = key.group;
  }
}

TEST(Keys, NamesAndAliasesAreFound) {
  for (const Key& key : all_keys()) {
    ASSERT_TRUE(find_key(key.name).has_value()) << key.name;
    EXPECT_EQ(&all_keys()[*find_key(key.name)], &key);
    for (const std::string& alias : key.aliases) EXPECT_EQ(find_key(alias), find_key(key.name));
  }
  EXPECT_FALSE(find_key("no_such_key").has_value());
  EXPECT_FALSE(find_key("").has_value());
}

TEST(Keys, AllowedPhrases) {
  const auto phrase = [](const char* name) { return allowed_phrase(all_keys()[*find_key(name)]); };
  EXPECT_EQ(phrase("steps"), "-1 or at least 1");
  EXPECT_EQ(phrase("warmup_steps_fraction"), "0 to 1");
  EXPECT_EQ(phrase("rope_max_timescale"), "above 1");
  EXPECT_EQ(phrase("remat_policy"), "full, minimal, none");
  EXPECT_EQ(phrase("num_experts"), "1");
  EXPECT_EQ(phrase("run_name"), "");
}

}  // namespace
}  // namespace maxtext
