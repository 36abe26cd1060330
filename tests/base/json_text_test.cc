#include "base/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::ThrowsMessage;

TEST(JsonText, WhatIsNotJsonIsSaidInOurWordsWithItsByte) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2]})", "x.json").at("a").at(1), 2);
  const auto error = [](const char* message) { return ThrowsMessage<ConfigError>(::testing::StrEq(message)); };
  EXPECT_THAT([] { parse_json("", "x.json"); }, error("x.json: not valid JSON at byte 1"));
  EXPECT_THAT([] { parse_json(R"({"a": 1,})", "x.json"); }, error("x.json: not valid JSON at byte 9"));
  EXPECT_THAT([] { parse_json("\"\xff\"", "x.json"); }, error("x.json: not valid JSON at byte 2"));
  EXPECT_THAT([] { parse_json("1e999", "x.json"); }, error("x.json: not valid JSON: a number in it is out of range"));
}

TEST(JsonText, AFileIsAnObjectOrAnErrorThatNamesIt) {
  const testing::TemporaryDirectory folder;
  const std::filesystem::path file = folder.path() / "x.json";
  const auto expect_error = [&](const std::string& text) {
    EXPECT_THAT([&] { read_json_object(file); },
                ThrowsMessage<ConfigError>(::testing::StrEq(file.string() + ": " + text)));
  };
  expect_error("there is no such file, or it cannot be read");
  for (const auto& [contents, kind] : std::vector<std::pair<std::string, std::string>>{
           {"[{}]", "array"}, {"\"{}\"", "string"}, {"3", "number"}, {"true", "boolean"}, {"null", "null"}}) {
    testing::write_file(file, contents);
    expect_error("expected a JSON object, found " + kind);
  }
  testing::write_file(file, "{");
  expect_error("not valid JSON at byte 2");
  testing::write_file(file, R"({"a": 1})");
  EXPECT_EQ(read_json_object(file).at("a"), 1);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  expect_error("expected a file, found a folder");
}

}  // namespace
}  // namespace maxtext
