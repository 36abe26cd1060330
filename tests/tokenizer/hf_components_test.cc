// Components of tokenizer.json and small whole tokenizers against what Hugging Face's library made of them:
// hf_components.json, written by hf_components.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/token_decoder.h"

namespace maxtext {
namespace {

using Ids = std::vector<std::int32_t>;
using Strings = std::vector<std::string>;

nlohmann::json expected() {
  const auto folder = std::filesystem::path(__FILE__).parent_path();
  std::ifstream file(folder / "hf_components.json");
  return nlohmann::json::parse(file);
}

JsonNode node_of(const nlohmann::json& component) { return {component, "file: part"}; }

class Pieces final : public PieceSink {
 public:
  explicit Pieces(bool bytes) : bytes_(bytes) {}
  void take(const TextPiece& piece) override {
    list.push_back(bytes_ ? to_byte_characters(piece.text) : std::string(piece.text));
  }
  Strings list;

 private:
  bool bytes_;
};

Strings pieces_of(const nlohmann::json& component, const std::string& text, bool may_leave_bytes) {
  const auto cuts = parse_pre_tokenizer(node_of(component), may_leave_bytes);
  EXPECT_TRUE(may_leave_bytes || !cuts.leaves_bytes);
  RegexScratch scratch;
  Pieces pieces(cuts.leaves_bytes);
  cuts.pre_tokenizer->split({text, true}, scratch, pieces);
  return pieces.list;
}

TEST(HfComponents, PreTokenizersCutAsTheLibrary) {
  const auto rows = expected()["pre_tokenizers"];
  ASSERT_GT(rows.size(), 50U);
  for (const auto& row : rows) {
    const auto wanted = row["pieces"].get<Strings>();
    EXPECT_EQ(pieces_of(row["component"], row["text"], false), wanted) << row;
    EXPECT_EQ(pieces_of(row["component"], row["text"], true), wanted) << "bytes left to the model: " << row;
  }
}

TEST(HfComponents, NormalizersRewriteAsTheLibrary) {
  const auto rows = expected()["normalizers"];
  ASSERT_GT(rows.size(), 25U);
  for (const auto& row : rows) {
    NormalizedText text{.text = row["text"]};
    RegexScratch scratch;
    parse_normalizer(node_of(row["component"]))->apply(text, scratch);
    EXPECT_EQ(text.text, row["result"].get<std::string>()) << row;
  }
}

TEST(HfComponents, DecodersMakeTheTextOfTheLibrary) {
  const auto rows = expected()["decoders"];
  ASSERT_GT(rows.size(), 15U);
  for (const auto& row : rows) {
    auto tokens = row["tokens"].get<Strings>();
    parse_token_decoder(node_of(row["component"]))->apply(tokens);
    std::string text;
    for (const auto& token : tokens) text += token;
    EXPECT_EQ(text, row["text"].get<std::string>()) << row;
  }
}

TEST(HfComponents, WholeTokenizersEncodeAndDecodeAsTheLibrary) {
  const auto rows = expected()["tokenizers"];
  ASSERT_GT(rows.size(), 10U);
  for (const auto& row : rows) {
    const HuggingFaceTokenizer tokenizer(row["file"].dump(), "", row["name"]);
    for (const auto& item : row["cases"]) {
      const std::string text = item["text"];
      const auto ids = item["ids_special"].get<Ids>();
      EXPECT_EQ(tokenizer.encode(text), item["ids"].get<Ids>()) << row["name"] << item;
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = true}), ids) << row["name"] << item;
      EXPECT_EQ(tokenizer.encode(text, {.parse_special_tokens = false}), item["ids_plain"].get<Ids>())
          << row["name"] << item;
      EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::keep), item["decoded"].get<std::string>()) << row["name"] << item;
      EXPECT_EQ(tokenizer.decode(ids), item["decoded_skip"].get<std::string>()) << row["name"] << item;
    }
  }
}

}  // namespace
}  // namespace maxtext
