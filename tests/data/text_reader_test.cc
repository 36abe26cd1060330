#include "data/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "base/error.h"
#include "data/line_reader.h"
#include "data/source_files.h"
#include "data/temporary_folder.h"
#include "data/text_lines.h"

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class TextReaderTest : public testing::FolderTest {
 protected:
  static std::vector<std::string> documents(const std::filesystem::path& file, const TextFormat& format = {}) {
    TextReader reader({file}, format);
    std::vector<std::string> result;
    TextPart part;
    bool open = false;
    while (reader.next(part)) {
      EXPECT_EQ(part.begins_document, !open);
      EXPECT_LE(part.text.size(), kTextPartBytes);
      if (part.begins_document) result.emplace_back();
      result.back() += part.text;
      open = !part.ends_document;
    }
    EXPECT_FALSE(open);
    return result;
  }

  static TextFormat separated(const std::string& separator) { return {"text", separator}; }
};

TEST_F(TextReaderTest, AFileIsADocument) {
  EXPECT_THAT(documents(write("a.txt", "\xEF\xBB\xBF\n\nfirst\r\nsecond\n\nthird\n\n\n")),
              ElementsAre("first\nsecond\n\nthird"));
  EXPECT_THAT(documents(write("no-newline.txt", "x")), ElementsAre("x"));
  EXPECT_THAT(documents(write("empty.txt", "")), IsEmpty());
  EXPECT_THAT(documents(write("blank.txt", "\n \n\t\n")), IsEmpty());
}

TEST_F(TextReaderTest, BlankLinesSeparate) {
  const auto file = write("a.txt", "\none\ntwo\n\n \n\r\nthree\n\nfour");
  EXPECT_THAT(documents(file, separated("blank_line")), ElementsAre("one\ntwo", "three", "four"));
}

TEST_F(TextReaderTest, AGivenLineSeparates) {
  const auto file = write("a.txt", "<|end|>\none\n\ntwo\n<|end|>\n<|end|>\nthree <|end|>\nfour\n<|end|>");
  EXPECT_THAT(documents(file, separated("<|end|>")), ElementsAre("one\n\ntwo", "three <|end|>\nfour"));
}

TEST_F(TextReaderTest, PartsOfLongDocumentsAreCutBeforeSpaces) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 700'000) text += std::string(1 + random() % 9, 'a') + (random() % 7 == 0 ? "\n" : " ");
  text.back() = 'z';
  const auto file = write("long.txt", text);
  EXPECT_THAT(documents(file), ElementsAre(text));
  TextReader reader({file}, {});
  TextPart part;
  int parts = 0;
  while (reader.next(part)) {
    EXPECT_TRUE(part.begins_document || part.text.front() == ' ');
    ++parts;
  }
  EXPECT_GE(parts, 10);
}

TEST_F(TextReaderTest, LinesLongerThanTheBufferAndWithoutSpacesKeepTheirCharacters) {
  std::string text;
  while (text.size() < 1'000'000) text += "\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_THAT(documents(write("a.txt", "x" + text + "\nend")), ElementsAre("x" + text + "\nend"));
  TextReader reader({folder_ / "a.txt"}, {});
  TextPart part;
  while (reader.next(part)) EXPECT_EQ(first_invalid_utf8(part.text), std::nullopt);
}

TEST_F(TextReaderTest, EveryLineLengthAroundTheBufferIsReadRight) {
  constexpr std::size_t kBuffer = 256 * 1024;
  for (std::size_t length = kBuffer - 3; length <= kBuffer + 3; ++length) {
    const auto file = write("a.txt", std::string(length, 'x') + "\r\nsecond\r\n");
    LineReader reader(file);
    LineReader::Fragment fragment;
    std::vector<std::string> lines = {""};
    while (reader.next(fragment)) {
      lines.back() += fragment.text;
      if (fragment.ends_line) lines.emplace_back();
    }
    EXPECT_THAT(lines, ElementsAre(std::string(length, 'x'), "second", "")) << length;
    EXPECT_EQ(reader.line(), 2);
  }
}

TEST_F(TextReaderTest, BytesThatAreNotUtf8AreNamedByFileAndOffset) {
  for (const std::size_t offset : {0UL, 5UL, 256UL * 1024 - 1, 256UL * 1024, 600'000UL}) {
    std::string text(offset, 'a');
    for (std::size_t i = 99; i < offset; i += 100) text[i] = '\n';
    const auto file = write("bad.txt", text + "\xE2\x82(\n");
    EXPECT_THAT([&] { documents(file); },
                ThrowsMessage<Error>(EndsWith("bad.txt: not UTF-8 at byte " + std::to_string(offset))));
  }
  EXPECT_THAT([&] { documents(write("cut.txt", "abc\xE2\x82")); },
              ThrowsMessage<Error>(EndsWith("cut.txt: not UTF-8 at byte 3")));
  EXPECT_THAT([&] { documents(write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xFF\"}\n")); },
              ThrowsMessage<Error>(EndsWith("bad.jsonl: not UTF-8 at byte 24")));
}

TEST_F(TextReaderTest, JsonLines) {
  const auto file =
      write("a.jsonl", "{\"text\": \"one\\ntwo \\u20ac\", \"n\": 1}\n\n{\"text\": \"\"}\r\n{\"text\":\" x \"}");
  EXPECT_THAT(documents(file), ElementsAre("one\ntwo \xE2\x82\xAC", " x "));
  EXPECT_THAT(documents(write("b.jsonl", "{\"body\": \"b\", \"text\": 7}\n"), {"body", ""}), ElementsAre("b"));
  std::string text;
  while (text.size() < 900'000) text += "word ";
  EXPECT_THAT(documents(write("c.jsonl", "{\"text\": \"" + text + "\"}\n")), ElementsAre(text));
}

TEST_F(TextReaderTest, WrongJsonLinesAreNamedByFileAndLine) {
  const auto expect = [&](const std::string& line, const std::string& message) {
    const auto file = write("a.jsonl", "{\"text\": \"fine\"}\n\n" + line + "\n");
    EXPECT_THAT([&] { documents(file); }, ThrowsMessage<Error>(EndsWith("a.jsonl:3: " + message)));
  };
  expect("{\"text\": \"cut", "not valid JSON at byte 14");
  expect("{\"text\": 1e999}", "not valid JSON: a number in it is out of range");
  expect("[1]", "expected a JSON object with field 'text', found array");
  expect("{\"body\": \"x\"}", "no field 'text'");
  expect("{\"text\": [\"x\"]}", "field 'text': expected a string, found array");
}

TEST_F(TextReaderTest, LinesOfAllDocuments) {
  std::string long_line;
  while (long_line.size() < 200'000) long_line += "many words ";
  long_line += "end";
  const auto plain = write("a.txt", "one\n\ntwo\n" + long_line + "\nthree");
  const auto json = write("b.jsonl", "{\"text\": \"four\\nfive\"}\n{\"text\": \"six\"}\n");
  TextLines source({plain, json}, {});
  std::vector<std::string> lines;
  for (std::string line; source.next(line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 8U);
  EXPECT_THAT(std::vector(lines.begin(), lines.begin() + 2), ElementsAre("one", "two"));
  EXPECT_THAT(std::vector(lines.end() - 4, lines.end()), ElementsAre("three", "four", "five", "six"));
  std::string joined;
  for (std::size_t i = 2; i + 4 < lines.size(); ++i) joined += lines[i];
  EXPECT_EQ(joined, long_line);
  std::string line;
  EXPECT_FALSE(source.next(line));
}

TEST_F(TextReaderTest, SourcesAreFilesFoldersAndGlobs) {
  const auto b = write("d/b.txt", "b");
  const auto a = write("d/sub/a.jsonl", "");
  write("d/.hidden.txt", "");
  write("d/.git/x.txt", "");
  write("d/picture.png", "");
  const auto c = write("e/c1.txt", "");
  const auto c2 = write("e/c2.txt", "");
  const std::string root = folder_.string();
  EXPECT_THAT(expand_sources("train_files", {root + "/d"}, {".txt", ".jsonl"}), ElementsAre(b, a));
  EXPECT_THAT(expand_sources("train_files", {root + "/e/c*.txt", root + "/d/b.txt", root + "/e/c1.txt"}),
              ElementsAre(c, c2, b));
  const auto brackets = write("e/[1].txt", "");
  EXPECT_THAT(expand_sources("train_files", {brackets.string()}), ElementsAre(brackets));
}

TEST_F(TextReaderTest, MissingSourcesAreConfigErrorsThatNameTheKey) {
  EXPECT_THAT([&] { expand_sources("eval_files", {}); }, ThrowsMessage<ConfigError>(HasSubstr("eval_files: expected")));
  EXPECT_THAT([&] { expand_sources("train_files", {"/no/such.txt"}); },
              ThrowsMessage<ConfigError>("train_files: no such file, folder or match: /no/such.txt"));
  EXPECT_THAT([&] { expand_sources("train_files", {folder_.string() + "/*.nothing"}); },
              ThrowsMessage<ConfigError>(EndsWith("/*.nothing")));
  EXPECT_THAT([&] { expand_sources("train_files", {folder_.string()}); },
              ThrowsMessage<ConfigError>(HasSubstr("no files to read in folder")));
  const std::string pipe = folder_.string() + "/pipe.txt";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT([&] { expand_sources("train_files", {pipe}); },
              ThrowsMessage<ConfigError>("train_files: " + pipe + " is not a regular file"));
}

}  // namespace
}  // namespace maxtext
