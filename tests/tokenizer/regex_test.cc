#include "tokenizer/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/regex_syntax.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// That translated patterns match what Oniguruma matches is tested in hf_components_test.cc.

TEST(RegexSyntax, WhatHasNoTranslationIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> wrong[] = {{"[a-z&&[^b]]", "byte 4: the intersection of sets"},
                                                       {"[a[bc]]", "byte 2: sets within sets"},
                                                       {"[[:odd:]]", "byte 1: this set in brackets"},
                                                       {R"(\g<n>)", R"(byte 0: the escape \g)"},
                                                       {R"([\W])", R"(byte 1: the escape \W)"},
                                                       {R"(\y)", R"(the escape \y)"},
                                                       {"(?~a)", "byte 0: this kind of group"},
                                                       {"(?(1)a|b)", "this kind of group"},
                                                       {"(?x: a)", "this kind of group"},
                                                       {"a)", "byte 1: a parenthesis closes nothing"},
                                                       {"(a", "a group is not closed"},
                                                       {"[a", "a set is not closed"},
                                                       {"(?#a", "a comment is not closed"},
                                                       {R"(a\)", "a backslash ends the pattern"},
                                                       {R"([\)", "a backslash ends the pattern"},
                                                       {R"(\p{Nothing})", "unknown property 'Nothing'"},
                                                       {R"(\pL)", "expected {Name}"},
                                                       {R"(\p{L)", "expected {Name}"},
                                                       {R"(\u12)", "expected hexadecimal digits"},
                                                       {R"(\x{})", "expected hexadecimal digits"},
                                                       {R"(\k)", "expected \\k<name>"}};
  for (const auto& row : wrong) {
    EXPECT_THAT([&] { translate_regex(row.first); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr(row.first), HasSubstr(row.second))));
  }
}

TEST(RegexSyntax, WhatTranslatesCompiles) {
  for (const char* pattern : {"",      "a|",    "()",   "]",          "}",     "{",         "a{1",   "a{1,2",
                              "a{,}",  "[]a]",  "[^]]", "[a-]",       "(?i)",  "(?i-m:a)",  "x{3}+", "x{1,}?",
                              R"(\\)", R"(\.)", "é+",   R"([é\-\]])", R"(\é)", "((?i)a|b)c"}) {
    EXPECT_TRUE(Regex::is_valid(translate_regex(pattern))) << pattern << " -> " << translate_regex(pattern);
  }
}

TEST(Regex, PatternsThatDoNotCompileSayWhy) {
  EXPECT_THAT([] { Regex("a("); }, ThrowsMessage<ConfigError>(AllOf(HasSubstr("'a('"), HasSubstr("parenthesis"))));
}

TEST(Regex, LooksBehindAndAheadButMatchesFromTheOffset) {
  RegexScratch scratch;
  const Regex regex("(?<=a)b(?=c)");
  const auto match = regex.find("abc", 1, scratch);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 1U);
  EXPECT_EQ(match->end, 2U);
  EXPECT_FALSE(regex.find("abc", 2, scratch));
}

TEST(Regex, TextsThatTakeDeepRecursionMatchAllTheSame) {
  RegexScratch scratch;
  const std::string text(3'000'000, 'a');
  const auto match = Regex("(?:a|b)*c|(?:(a)|b)*").find(text, 0, scratch);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->end, text.size());
  const std::string spaces(3'000'000, ' ');
  EXPECT_EQ(Regex(R"(\s*[\r\n]+|\s+(?!\S)|\s+)").find(spaces, 0, scratch)->end, spaces.size());
}

}  // namespace
}  // namespace maxtext
