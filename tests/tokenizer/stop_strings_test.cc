#include "tokenizer/stop_strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace maxtext {
namespace {

TEST(StopStrings, FindsAStringOverPiecesAndHoldsBackOnlyWhatMayBeIt) {
  StopStrings stop({"<end>", "\n\n"});
  EXPECT_EQ(stop.push("Hello <e"), "Hello ");
  EXPECT_EQ(stop.push("xit> a\n"), "<exit> a");
  EXPECT_EQ(stop.push("b <en"), "\nb ");
  EXPECT_EQ(stop.push("d> more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.found(), "<end>");
  EXPECT_EQ(stop.push("text"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, TheEndReleasesWhatWasHeldBack) {
  StopStrings stop({"abc"});
  EXPECT_EQ(stop.push("xab"), "x");
  EXPECT_EQ(stop.flush(), "ab");
  EXPECT_FALSE(stop.stopped());
}

TEST(StopStrings, WithoutStringsEverythingPasses) {
  StopStrings stop({});
  EXPECT_EQ(stop.push("anything"), "anything");
}

TEST(StopStrings, AnEmptyStringIsAConfigError) { EXPECT_THROW(StopStrings({"a", ""}), ConfigError); }

TEST(StopStrings, WhatPassesDoesNotDependOnThePieces) {
  std::mt19937 random(6);
  const auto word = [&](std::size_t length) {
    std::string text;
    while (text.size() < length) text += "abc"[random() % 3];
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> strings;
    for (std::size_t i = 0; i < 1 + random() % 3; ++i) strings.push_back(word(1 + random() % 5));
    const std::string text = word(random() % 30);
    // Character by character: the first end at which one of them is complete, the longest of those.
    std::string wanted = text;
    for (std::size_t end = 1; end <= text.size() && wanted == text; ++end) {
      std::size_t longest = 0;
      for (const auto& string : strings) {
        if (text.substr(0, end).ends_with(string)) longest = std::max(longest, string.size());
      }
      if (longest > 0) wanted = text.substr(0, end - longest);
    }
    StopStrings stop(strings);
    std::string passed;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 4;
      passed += stop.push(text.substr(at, size));
      EXPECT_TRUE(text.starts_with(passed));
      at += size;
    }
    passed += stop.flush();
    EXPECT_EQ(passed, wanted) << text << " with " << ::testing::PrintToString(strings);
  }
}

}  // namespace
}  // namespace maxtext
