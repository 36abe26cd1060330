// Real tokenizers against Hugging Face's library: ids, tokens, decoded text and streamed text, all exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "testing/fixtures.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/stream_decoder.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const nlohmann::json& vectors() {
  static const nlohmann::json file = [] {
    std::ifstream stream(testing::fixture_root() / "hf/tokenizers/vectors.json");
    return nlohmann::json::parse(stream).at("tokenizers");
  }();
  return file;
}

/// The tokenizer's folder among the fixtures or, for those too large to be committed, beside the repository.
fs::path folder_of(const std::string& name) {
  const fs::path repository = fs::path(__FILE__).parent_path().parent_path().parent_path();
  const fs::path committed = testing::fixture_root() / "tokenizers" / name;
  return fs::exists(committed) ? committed : repository.parent_path() / "shared/fixtures/tokenizers" / name;
}

class HfTokenizerGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const fs::path folder = folder_of(GetParam());
    if (!fs::exists(folder / "tokenizer.json"))
      GTEST_SKIP() << folder / "tokenizer.json"
                   << " is absent";
    // Loading takes a second; the tests of a tokenizer share it.
    auto& tokenizer = opened_[GetParam()];
    if (!tokenizer) tokenizer = std::make_unique<HuggingFaceTokenizer>(folder);
  }

  static const nlohmann::json& golden() { return vectors().at(GetParam()); }
  static const HuggingFaceTokenizer& tokenizer() { return *opened_.at(GetParam()); }

  static std::map<std::string, std::unique_ptr<HuggingFaceTokenizer>> opened_;
};

std::map<std::string, std::unique_ptr<HuggingFaceTokenizer>> HfTokenizerGolden::opened_;

/// null stands for the text itself.
std::string text_or(const nlohmann::json& value, const std::string& text) {
  return value.is_null() ? text : value.get<std::string>();
}

TEST_P(HfTokenizerGolden, Encodes) {
  ASSERT_GT(golden()["cases"].size(), 300U);
  for (const auto& item : golden()["cases"]) {
    const std::string text = item["text"];
    const Ids ids = tokenizer().encode(text);
    EXPECT_EQ(ids, item["ids"].get<Ids>()) << item["tag"] << nlohmann::json(text);
    EXPECT_EQ(tokenizer().encode(text, {.add_special_tokens = true}), item["ids_special"].get<Ids>()) << item["tag"];
    std::vector<std::string> tokens;
    for (const auto id : ids) tokens.push_back(tokenizer().id_to_token(id));
    EXPECT_EQ(tokens, item["tokens"].get<std::vector<std::string>>()) << item["tag"];
    for (const auto id : ids) EXPECT_EQ(tokenizer().token_to_id(tokenizer().id_to_token(id)), id);
  }
}

TEST_P(HfTokenizerGolden, Decodes) {
  for (const auto& item : golden()["cases"]) {
    const std::string text = item["text"];
    const auto ids = item["ids"].get<Ids>();
    const auto special = item["ids_special"].get<Ids>();
    EXPECT_EQ(tokenizer().decode(ids, SpecialTokens::keep), text_or(item["decoded"], text)) << item["tag"];
    EXPECT_EQ(tokenizer().decode(special, SpecialTokens::keep), text_or(item["decoded_special"], text)) << item["tag"];
    EXPECT_EQ(tokenizer().decode(special, SpecialTokens::skip), text_or(item["decoded_skip_special"], text))
        << item["tag"];
  }
  ASSERT_GT(golden()["single"].size(), 100U);
  for (const auto& [id, token, text] :
       golden()["single"].get<std::vector<std::tuple<int, std::string, std::string>>>()) {
    EXPECT_EQ(tokenizer().id_to_token(id), token);
    EXPECT_EQ(tokenizer().decode({{id}}, SpecialTokens::keep), text) << id;
  }
}

TEST_P(HfTokenizerGolden, Streams) {
  ASSERT_GT(golden()["streams"].size(), 20U);
  for (const auto& item : golden()["streams"]) {
    const auto ids = item["ids"].get<Ids>();
    const auto special = item["skip_special_tokens"].get<bool>() ? SpecialTokens::skip : SpecialTokens::keep;
    EXPECT_EQ(tokenizer().encode(item["text"].get<std::string>(),
                                 {.add_special_tokens = item["add_special_tokens"].get<bool>()}),
              ids);
    StreamDecoder stream(tokenizer(), special);
    std::string given;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string chunk = stream.push(ids[i]);
      EXPECT_EQ(chunk, text_or(item["chunks"][i], "")) << "token " << i << " of " << item["text"];
      given += chunk;
    }
    EXPECT_EQ(given + stream.flush(), tokenizer().decode(ids, special)) << item["text"];
    for (const auto& [count, text] : item["prefix_decodes"].get<std::vector<std::pair<std::size_t, std::string>>>()) {
      EXPECT_EQ(tokenizer().decode(std::span(ids).first(count), special), text) << count << " of " << item["text"];
    }
  }
}

/// Of a prompt that ends anywhere but within a character.
TEST_P(HfTokenizerGolden, ContinuesAPrompt) {
  for (const auto& item : golden()["streams"]) {
    const auto ids = item["ids"].get<Ids>();
    const std::string whole = tokenizer().decode(ids, SpecialTokens::skip);
    for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
      const std::string before = tokenizer().decode(std::span(ids).first(cut), SpecialTokens::skip);
      if (!whole.starts_with(before)) continue;
      StreamDecoder stream(tokenizer());
      stream.begin_after(std::span(ids).first(cut));
      std::string text;
      for (std::size_t i = cut; i < ids.size(); ++i) text += stream.push(ids[i]);
      EXPECT_EQ(before + text + stream.flush(), whole) << cut << " of " << item["text"];
    }
  }
}

TEST_P(HfTokenizerGolden, CountsItsTokens) {
  EXPECT_EQ(tokenizer().tokens_with_added(), golden()["vocab_size_with_added"].get<int>());
  EXPECT_EQ(tokenizer().tokens_without_added(), golden()["vocab_size_without_added"].get<int>());
  EXPECT_EQ(tokenizer().vocab_size(), golden()["vocab_size_with_added"].get<int>());
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, HfTokenizerGolden, ::testing::Values("llama2", "llama3", "qwen3", "gemma3"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace maxtext
