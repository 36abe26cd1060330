#include "tokenizer/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/error.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;
using nlohmann::json;

json parse(const char* text) { return json::parse(text); }

/// Words begin with U+2581, as in files made from SentencePiece models; characters fall back to bytes.
json llama_file() {
  json file = parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true},
                     {"id": 2, "content": "</s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "post_processor": {"type": "TemplateProcessing",
                       "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                       "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2}, "merges": ["a b", "▁ ab", "b c", "▁ ▁"]}})");
  auto& vocab = file["model"]["vocab"];
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
  int next = 259;
  for (const char* token : {"a", "b", "c", "▁", "ab", "▁ab", "bc", "▁▁"}) vocab[token] = next++;
  return file;
}

HuggingFaceTokenizer opened(const json& file, const std::string& config = "") {
  return {file.dump(), config, "some/tokenizer.json"};
}

std::string error_of(const json& file, const std::string& config = "") {
  try {
    opened(file, config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HuggingFaceTokenizer, OpensAFileOrItsFolderAndReadsTheConfigBesideIt) {
  const testing::TemporaryDirectory folder;
  testing::write_file(folder.path() / "tokenizer.json", llama_file().dump());
  EXPECT_EQ(open_tokenizer(folder.path(), "huggingface")->eos_id(), std::nullopt);
  testing::write_file(folder.path() / "tokenizer_config.json",
                      R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>"})");
  for (const auto& path : {folder.path(), folder.path() / "tokenizer.json"}) {
    const auto tokenizer = open_tokenizer(path, "huggingface");
    EXPECT_EQ(tokenizer->bos_id(), 1);
    EXPECT_EQ(tokenizer->eos_id(), 2);
    EXPECT_EQ(tokenizer->unk_id(), 0);
    EXPECT_EQ(tokenizer->pad_id(), std::nullopt) << "a padding token that has no id";
    EXPECT_EQ(tokenizer->vocab_size(), 267);
  }
  EXPECT_THAT([&] { open_tokenizer(folder.path() / "no.json", "huggingface"); },
              ThrowsMessage<ConfigError>((folder.path() / "no.json").string() + ": no such file"));
  EXPECT_THAT([&] { open_tokenizer("", "huggingface"); }, ThrowsMessage<ConfigError>(HasSubstr("got nothing")));
}

TEST(HuggingFaceTokenizer, AFileOrItsFolderIsRecognisedWithoutItsType) {
  const testing::TemporaryDirectory folder;
  EXPECT_THAT([&] { open_tokenizer(folder.path(), ""); },
              ThrowsMessage<ConfigError>(HasSubstr("has no tokenizer.json or tokenizer.model")));
  EXPECT_THAT([&] { open_tokenizer("", ""); }, ThrowsMessage<ConfigError>(HasSubstr("got nothing")));
  testing::write_file(folder.path() / "tokenizer.json", llama_file().dump());
  testing::write_file(folder.path() / "tokenizer.model", "not even read");
  for (const auto& path : {folder.path(), folder.path() / "tokenizer.json"}) {
    EXPECT_EQ(open_tokenizer(path, "")->fingerprint(), open_tokenizer(path, "huggingface")->fingerprint());
  }
}

TEST(HuggingFaceTokenizer, ATypeThatIsGivenWinsOverWhatElseLiesThere) {
  const testing::TemporaryDirectory folder;
  const auto expect_error = [&](const std::filesystem::path& path, const std::string& message) {
    EXPECT_THAT([&] { open_tokenizer(path, "sentencepiece"); }, ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  testing::write_file(folder.path() / "tokenizer.json", llama_file().dump());
  expect_error(folder.path(), (folder.path() / "tokenizer.model").string() + ": no such file");
  expect_error(folder.path() / "tokenizer.json", "tokenizer.json: not a sentencepiece model");
  testing::write_file(folder.path() / "tokenizer.model", "read, and found to be none");
  expect_error(folder.path(), "tokenizer.model: not a sentencepiece model");
}

TEST(HuggingFaceTokenizer, FilesOfAnotherKindAreNamed) {
  const testing::TemporaryDirectory folder;
  const auto expect_error = [&](const std::string& message) {
    EXPECT_THAT([&] { open_tokenizer(folder.path(), "huggingface"); }, ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  testing::write_file(folder.path() / "tokenizer.json", llama_file().dump());
  for (const std::string wrong : {"[1]", "\"text\"", "3"}) {
    testing::write_file(folder.path() / "tokenizer_config.json", wrong);
    expect_error("tokenizer_config.json: expected an object, found " + wrong);
  }
  for (const std::string name : {"tokenizer_config.json", "tokenizer.json"}) {
    std::filesystem::remove(folder.path() / name);
    std::filesystem::create_directory(folder.path() / name);
    expect_error(name + ": expected a file, found a folder");
  }
}

TEST(HuggingFaceTokenizer, TheConfigDecidesWhatIsAddedWhereItSaysSo) {
  const std::string names = R"("bos_token": "<s>", "eos_token": "</s>")";
  const EncodeOptions with{.add_special_tokens = true};
  EXPECT_THAT(opened(llama_file(), "{" + names + "}").encode("ab", with), ElementsAre(1, 264));
  EXPECT_THAT(
      opened(llama_file(), "{" + names + R"(, "add_bos_token": true, "add_eos_token": true})").encode("ab", with),
      ElementsAre(1, 264, 2));
  EXPECT_THAT(opened(llama_file(), "{" + names + R"(, "add_bos_token": false})").encode("ab", with), ElementsAre(264));
  EXPECT_THAT(opened(llama_file(), "{" + names + R"(, "add_bos_token": true})").encode("ab"), ElementsAre(264));
  json bare = llama_file();
  bare.erase("post_processor");
  EXPECT_THAT(opened(bare, "{" + names + R"(, "add_bos_token": true})").encode("", with), ElementsAre(1));
}

TEST(HuggingFaceTokenizer, ATextCutBeforeASpaceEncodesAsTheWhole) {
  const auto tokenizer = opened(llama_file());
  const std::string text = "ab abc  ab\n ab é c ab";
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    if (text[cut] != ' ' || text[cut - 1] == ' ') continue;
    Ids ids = tokenizer.encode(text.substr(0, cut));
    const Ids rest = tokenizer.encode_continuation(text.substr(cut));
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, tokenizer.encode(text)) << cut;
  }
  EXPECT_EQ(tokenizer.encode_continuation("<s>ab"), tokenizer.encode("<s>ab"));
}

TEST(HuggingFaceTokenizer, WhatSpellsASpecialTokenIsTextWhenAsked) {
  const auto tokenizer = opened(llama_file());
  EXPECT_THAT(tokenizer.encode("ab</s>ab"), ElementsAre(264, 2, 264));
  const Ids plain = tokenizer.encode("ab</s>ab", {.parse_special_tokens = false});
  EXPECT_THAT(plain, ::testing::Not(::testing::Contains(2)));
  EXPECT_EQ(tokenizer.decode(plain), "ab</s>ab");
}

TEST(HuggingFaceTokenizer, RoundTripsRandomText) {
  const auto tokenizer = opened(llama_file());
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text = "a";
    for (int i = 0; i < 60; ++i) {
      static const char* const kParts[] = {"a", "b", "c", " ", "  ", "ab", "\n", "é", "漢", "😀", "\x01", "x", "<0x41"};
      text += kParts[random() % std::size(kParts)];
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(HuggingFaceTokenizer, TextThatIsNotUtf8IsAnErrorWithItsPlace) {
  const auto tokenizer = opened(llama_file());
  EXPECT_THAT([&] { tokenizer.encode("ab\xff"); }, ThrowsMessage<Error>(HasSubstr("not UTF-8 at byte 2")));
  EXPECT_THAT([&] { tokenizer.encode("ab\xf0\x9f\x98"); }, ThrowsMessage<Error>(HasSubstr("not UTF-8 at byte 2")));
  EXPECT_THAT([&] { tokenizer.encode_continuation("\xed\xa0\x80"); }, ThrowsMessage<Error>(HasSubstr("byte 0")));
  EXPECT_THAT(tokenizer.encode(""), IsEmpty());
  EXPECT_THAT(tokenizer.encode(std::string_view("\0", 1)), ElementsAre(262, 3));
}

TEST(HuggingFaceTokenizer, IdsThatNoTokenHasAreErrors) {
  const auto tokenizer = opened(llama_file());
  EXPECT_THAT([&] { tokenizer.decode({{264, 267}}); }, ThrowsMessage<Error>(HasSubstr("id 267 at index 1")));
  EXPECT_THAT([&] { tokenizer.decode({{-1}}); }, ThrowsMessage<Error>(HasSubstr("id -1 at index 0")));
  EXPECT_THROW(tokenizer.id_to_token(267), Error);
  EXPECT_FALSE(tokenizer.has_token(267));
  EXPECT_TRUE(tokenizer.has_token(266));
  EXPECT_EQ(tokenizer.token_to_id("▁ab"), 264);
  EXPECT_EQ(tokenizer.token_to_id("nothing"), std::nullopt);
}

TEST(HuggingFaceTokenizer, AddedTokensMayLeaveGapsInTheIds) {
  json file = llama_file();
  file["added_tokens"].push_back(parse(R"({"id": 300, "content": "<far>", "special": false, "normalized": false})"));
  const auto tokenizer = opened(file);
  EXPECT_EQ(tokenizer.vocab_size(), 301);
  EXPECT_EQ(tokenizer.tokens_with_added(), 268);
  EXPECT_THAT(tokenizer.encode("<far>"), ElementsAre(300));
  EXPECT_FALSE(tokenizer.has_token(299));
  EXPECT_THROW(tokenizer.decode({{299}}), Error);
}

TEST(HuggingFaceTokenizer, ManyThreadsMayEncodeAtOnce) {
  const auto tokenizer = opened(llama_file());
  std::vector<std::string> texts;
  for (int i = 0; i < 8; ++i) {
    texts.emplace_back();
    for (int k = 0; k < 400; ++k) texts.back() += (k * (i + 3)) % 5 == 0 ? " ab" : k % 3 == 0 ? "c é" : "abc";
  }
  std::vector<Ids> alone;
  for (const auto& text : texts) alone.push_back(tokenizer.encode(text));
  std::vector<std::thread> threads;
  std::vector<int> wrong(texts.size(), 0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) wrong[i] += tokenizer.encode(texts[i]) != alone[i] ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(HuggingFaceTokenizer, FingerprintsChangeWithTheMapping) {
  const std::string names = R"({"bos_token": "<s>"})";
  EXPECT_EQ(opened(llama_file()).fingerprint(), opened(llama_file()).fingerprint());
  EXPECT_NE(opened(llama_file()).fingerprint(), opened(llama_file(), names).fingerprint());
  json other = llama_file();
  other["model"]["merges"] = parse(R"(["b c"])");
  EXPECT_NE(opened(llama_file()).fingerprint(), opened(other).fingerprint());
}

TEST(HuggingFaceTokenizerErrors, EveryComponentThatIsNotSupportedIsNamed) {
  const std::pair<const char*, const char*> kinds[] = {{"normalizer", "BertNormalizer"},
                                                       {"normalizer", "Precompiled"},
                                                       {"pre_tokenizer", "UnicodeScripts"},
                                                       {"pre_tokenizer", "FixedLength"},
                                                       {"post_processor", "BertProcessing"},
                                                       {"decoder", "CTC"},
                                                       {"decoder", "WordPiece"},
                                                       {"model", "Unigram"},
                                                       {"model", "WordPiece"}};
  for (const auto& [part, type] : kinds) {
    json file = llama_file();
    file[part]["type"] = type;
    EXPECT_THAT(error_of(file), AllOf(HasSubstr("some/tokenizer.json: " + std::string(part)), HasSubstr(type),
                                      HasSubstr("supported are")));
  }
  json file = llama_file();
  file["normalizer"]["normalizers"][1]["type"] = "Nmt";
  EXPECT_THAT(error_of(file),
              HasSubstr("normalizer.normalizers[1]: type 'Nmt' is not supported; supported are Sequence"));
}

TEST(HuggingFaceTokenizerErrors, WrongSettingsNameTheirPlace) {
  const auto with = [](const char* pointer, const char* value) {
    json file = llama_file();
    file[json::json_pointer(pointer)] = parse(value);
    return error_of(file);
  };
  EXPECT_THAT(with("/model/dropout", "0.1"), HasSubstr("model.dropout: dropout makes encoding random"));
  EXPECT_EQ(with("/model/dropout", "0.0"), "no error");
  EXPECT_THAT(with("/model/unk_token", R"("<none>")"), HasSubstr("model.unk_token: '<none>'"));
  EXPECT_THAT(with("/model/byte_fallback", "1"), HasSubstr("model.byte_fallback: expected true or false, found 1"));
  EXPECT_THAT(with("/model/merges/1", R"("ab")"), HasSubstr("model.merges[1]: expected"));
  EXPECT_THAT(with("/model/merges/1", R"("a b c")"), HasSubstr("model.merges[1]: expected"));
  EXPECT_THAT(with("/model/merges/1", R"(["a"])"), HasSubstr("model.merges[1]: expected"));
  EXPECT_THAT(with("/model/merges/1", R"(["a", "b", "c"])"), HasSubstr("model.merges[1]: expected"));
  EXPECT_THAT(with("/model/merges/1", R"(7)"), HasSubstr("model.merges[1]: expected"));
  EXPECT_THAT(with("/model/merges/1", R"("a c")"), HasSubstr("model.merges[1]: 'ac' is not in the vocabulary"));
  EXPECT_THAT(with("/model/merges/1", R"("a z")"), HasSubstr("model.merges[1]: 'z' is not in the vocabulary"));
  EXPECT_THAT(with("/model/vocab/new", "5"), HasSubstr("model.vocab: the token 'new' or its id 5 occurs twice"));
  EXPECT_THAT(with("/model/vocab/new", "-1"), HasSubstr("not in 0-"));
  EXPECT_THAT(with("/model/vocab/new", "18446744073709551615"), HasSubstr("not in 0-"));
  EXPECT_THAT(with("/model/vocab/new", "99999999"), HasSubstr("not in 0-"));
  EXPECT_THAT(with("/model/vocab/new", "1.5"), HasSubstr("model.vocab: 'new' has an id that is no integer"));
  EXPECT_THAT(with("/model/vocab/new", "{}"), HasSubstr("model.vocab: 'new'"));
  EXPECT_THAT(with("/model/vocab", "{}"), HasSubstr("model: 'vocab' is missing or empty"));
  EXPECT_THAT(with("/model", "{}"), HasSubstr("model: 'vocab' is missing or empty"));
  EXPECT_THAT(with("/model", "null"), HasSubstr("'model' is missing"));
  EXPECT_THAT(with("/normalizer/normalizers/0", R"({"prepend": "x"})"), HasSubstr("normalizers[0]: 'type' is missing"));
  EXPECT_THAT(with("/normalizer/normalizers/0", "3"), HasSubstr("normalizers[0]: expected an object, found 3"));
  EXPECT_THAT(with("/normalizer/normalizers/1/pattern", R"({"String": ""})"), HasSubstr("pattern.String: expected"));
  EXPECT_THAT(with("/normalizer/normalizers/1/pattern", R"({"Regex": "a("})"),
              HasSubstr("pattern.Regex: pattern 'a('"));
  EXPECT_THAT(with("/normalizer/normalizers/1/pattern", "{}"), HasSubstr("expected {\"String\""));
  EXPECT_THAT(with("/post_processor/single", "[]"), HasSubstr("expected the sequence A once, found it 0 times"));
  EXPECT_THAT(with("/post_processor/special_tokens", "{}"), HasSubstr("'<s>' is missing"));
  EXPECT_THAT(with("/post_processor/special_tokens/<s>/ids/0", "9999"), HasSubstr("no token has the id 9999"));
  EXPECT_THAT(with("/decoder/decoders/3/content", R"("ab")"), HasSubstr("content: expected one character"));
  EXPECT_THAT(with("/pre_tokenizer", R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Odd"})"),
              HasSubstr("pre_tokenizer.behavior: expected Removed"));
  EXPECT_THAT(with("/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})"), HasSubstr("one character"));
  EXPECT_THAT(with("/pre_tokenizer", R"({"type": "Metaspace", "prepend_scheme": "last"})"), HasSubstr("always, first"));
  EXPECT_THAT(with("/pre_tokenizer", R"({"type": "Metaspace", "prepend_scheme": "first", "add_prefix_space": false})"),
              HasSubstr("contradicts"));
  EXPECT_THAT(with("/added_tokens/1/id", "7"), HasSubstr("'<s>' has id 7 here and 1 in model.vocab"));
  EXPECT_THAT(with("/added_tokens/1", R"({"id": 5, "content": "<x>"})"),
              HasSubstr("is that of '<0x02>' in model.vocab"));
  EXPECT_THAT(with("/added_tokens/1", R"({"id": 2, "content": "</s>"})"), HasSubstr("occurs twice"));
  EXPECT_THAT(with("/added_tokens/1/id", "-1"), HasSubstr("added_tokens[1]: id"));
}

TEST(HuggingFaceTokenizerErrors, FilesThatAreNotJson) {
  const auto error = [](const std::string& text, const std::string& config = "") {
    try {
      HuggingFaceTokenizer(text, config, "t.json");
    } catch (const ConfigError& thrown) {
      return std::string(thrown.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error(""), HasSubstr("t.json: not valid JSON at byte"));
  EXPECT_THAT(error("{\"model\": "), HasSubstr("t.json: not valid JSON at byte"));
  EXPECT_THAT(error("{\"a\": 1e999}"), ::testing::StrEq("t.json: not valid JSON: a number in it is out of range"));
  EXPECT_THAT(error("{} x"), HasSubstr("t.json: not valid JSON at byte"));
  EXPECT_THAT(error("[]"), HasSubstr("t.json: expected a JSON object"));
  EXPECT_THAT(error("{\"a\": " + std::string(1000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(error(llama_file().dump(), "{"), HasSubstr("tokenizer_config.json: not valid JSON at byte 2"));
  EXPECT_THAT(error(llama_file().dump(), R"({"eos_token": "</none>"})"),
              HasSubstr("tokenizer_config.json: eos_token: '</none>' is not a token"));
  EXPECT_THAT(error(llama_file().dump(), R"({"eos_token": 3})"), HasSubstr("eos_token: expected a string, found 3"));
}

}  // namespace
}  // namespace maxtext
