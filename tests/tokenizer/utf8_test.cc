#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace maxtext {
namespace {

struct Case {
  std::string text;
  std::int64_t offset;  // UnicodeDecodeError.start of Python 3.11 for the same bytes
};

const std::vector<Case>& invalid_cases() {
  static const std::vector<Case> cases = {
      {"\xff", 0},
      {"ab\x80", 2},
      {"abcdefgh\xc3", 8},
      {"abcdefghi\xc3(", 9},
      {"\xc0\xaf", 0},           // overlong '/'
      {"\xc1\xbf", 0},           // overlong
      {"x\xe0\x80\x80", 1},      // overlong, three bytes
      {"x\xed\xa0\x80", 1},      // surrogate
      {"x\xf0\x80\x80\x80", 1},  // overlong, four bytes
      {"x\xf4\x90\x80\x80", 1},  // above U+10FFFF
      {"x\xf5\x80\x80\x80", 1},
      {"\xe2\x82\xac\xe2\x82", 3},  // truncated euro sign after a whole one
      {"\xe2\x82\xac\xe2\x28\xa1", 3},
      {"\xf0\x9f\x98\x80\xf0\x9f\x98", 4},
      {"\xf0\x9f\x98\x80\xf0\x9f\x98z", 4},
  };
  return cases;
}

TEST(Utf8, FirstBadOffsetIsPythons) {
  for (const Case& item : invalid_cases()) EXPECT_EQ(first_invalid_utf8(item.text), item.offset) << item.text;
}

TEST(Utf8, AcceptsEdgesOfEveryLength) {
  const std::string edges = std::string(1, '\0')
                                .append("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf")
                                .append("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
  EXPECT_EQ(first_invalid_utf8(edges), std::nullopt);
  EXPECT_EQ(first_invalid_utf8(""), std::nullopt);
}

TEST(Utf8, EveryCutOfTheStreamGivesTheSameAnswer) {
  for (const Case& item : invalid_cases()) {
    const std::string text = "0123456789\xc3\xa9" + item.text + "tail tail";
    const auto whole = first_invalid_utf8(text);
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      Utf8Validator validator;
      const bool valid = validator.feed(std::string_view(text).substr(0, cut)) &&
                         validator.feed(std::string_view(text).substr(cut)) && validator.finish();
      EXPECT_FALSE(valid);
      EXPECT_EQ(validator.error_offset(), whole) << cut;
    }
  }
}

TEST(Utf8, AllTwoByteStringsAgreeWithTheDefinition) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      const bool two = first >= 0xC2 && first <= 0xDF && second >= 0x80 && second <= 0xBF;
      const bool valid = (first < 0x80 && second < 0x80) || two;
      EXPECT_EQ(!first_invalid_utf8(text).has_value(), valid) << first << ' ' << second;
    }
  }
}

TEST(Utf8, BoundaryNeverSplitsACharacter) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac!";
  EXPECT_EQ(utf8_boundary(text, 2), 1U);
  EXPECT_EQ(utf8_boundary(text, 3), 3U);
  EXPECT_EQ(utf8_boundary(text, 5), 3U);
  EXPECT_EQ(utf8_boundary(text, 99), text.size());
}

}  // namespace
}  // namespace maxtext
