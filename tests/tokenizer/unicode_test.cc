#include "tokenizer/unicode.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

std::string random_text(std::mt19937& random, int length) {
  static const char32_t kCharacters[] = {
      U'a',  U'e',   U' ',   0xE9,   0x301,  0x300,   0x328,   0x315,  0x5AE, 0xAC00, 0x1100, 0x1161,  0x11A8,  0x212B,
      0x958, 0xFB01, 0xFF21, 0x3099, 0x304B, 0x1D15E, U'\x7f', 0x1E9B, 0x323, 0x2126, 0xF900, 0x11099, 0x110BA, 0x2ADC};
  std::string text;
  for (int i = 0; i < length; ++i) append_utf8(text, kCharacters[random() % std::size(kCharacters)]);
  return text;
}

TEST(Normalize, FormsAreStableAndAgreeWithEachOther) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, 1 + static_cast<int>(random() % 20));
    const std::string nfc = normalize(text, NormalForm::nfc);
    const std::string nfd = normalize(text, NormalForm::nfd);
    EXPECT_EQ(normalize(nfc, NormalForm::nfc), nfc);
    EXPECT_EQ(normalize(nfd, NormalForm::nfd), nfd);
    EXPECT_EQ(normalize(nfc, NormalForm::nfd), nfd);
    EXPECT_EQ(normalize(nfd, NormalForm::nfc), nfc);
    EXPECT_EQ(normalize(normalize(text, NormalForm::nfkd), NormalForm::nfkc), normalize(text, NormalForm::nfkc));
  }
}

TEST(Normalize, CuttingIntoRunsChangesNothing) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    std::string whole;
    std::string parts;
    for (int i = 0; i < 4; ++i) {
      std::string part = "x";
      part += random_text(random, 8);
      whole += part;
      parts += normalize(part, NormalForm::nfc);
    }
    EXPECT_EQ(normalize(whole, NormalForm::nfc), parts);
  }
}

TEST(Normalize, ManyMarksTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA8";  // U+0301, U+0328
  const std::string normal = normalize(text, NormalForm::nfd);
  EXPECT_EQ(normal.substr(1, 2), "\xCC\xA8");
  EXPECT_EQ(normal.size(), text.size());
}

TEST(Unicode, WhiteSpaceIsThePropertyOfThatName) {
  std::string found;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_white_space(c)) found += fmt::format("{:X} ", static_cast<std::uint32_t>(c));
  }
  EXPECT_EQ(found,
            "9 A B C D 20 85 A0 1680 2000 2001 2002 2003 2004 2005 2006 2007 2008 2009 200A 2028 2029 202F 205F 3000 ");
}

TEST(Unicode, NumbersAndPunctuation) {
  EXPECT_TRUE(is_numeric(U'7') && is_numeric(0x663) && is_numeric(0xBD) && is_numeric(0x2160));
  EXPECT_FALSE(is_numeric(U'a') || is_numeric(U' '));
  EXPECT_TRUE(is_punctuation(U'$') && is_punctuation(U'~') && is_punctuation(0x3001) && is_punctuation(0xAB));
  EXPECT_FALSE(is_punctuation(U'a') || is_punctuation(0x20AC) || is_punctuation(U' '));
}

TEST(ReplaceInvalidUtf8, OneReplacementForEachMaximalPart) {
  const std::string bad = "\xEF\xBF\xBD";
  // Unicode Standard 15, table 3-8.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            bad + bad + bad + bad + bad + bad + bad + bad + "A");
  // Table 3-9.
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            bad + bad + bad + bad + bad + bad + bad + bad + "A");
  // Table 3-11.
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), bad + bad + bad + bad + "A");
  EXPECT_EQ(replace_invalid_utf8("ab\xC3\xA9"), "ab\xC3\xA9");
  EXPECT_EQ(replace_invalid_utf8("ab\xC3"), "ab" + bad);
  EXPECT_EQ(replace_invalid_utf8(""), "");
}

TEST(Utf8, CharactersComeBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(utf8_length(text[0]), text.size());
    ASSERT_EQ(utf8_at(text, 0), c);
  }
}

}  // namespace
}  // namespace maxtext
