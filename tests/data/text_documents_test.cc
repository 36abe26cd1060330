#include "data/text_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "data/temporary_folder.h"
#include "data/token_cache.h"
#include "tokenizer/bytes_tokenizer.h"
#include "tokenizer/sentencepiece_trainer.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Counts how often it is asked: what comes from the cache is not encoded again.
class CountingTokenizer final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const override {
    ++calls;
    return bytes_.encode(text, options);
  }
  std::vector<std::int32_t> encode_continuation(std::string_view text) const override { return encode(text); }
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override {
    return bytes_.decode(ids, special);
  }
  std::string id_to_token(std::int32_t id) const override { return bytes_.id_to_token(id); }
  std::optional<std::int32_t> token_to_id(std::string_view token) const override { return bytes_.token_to_id(token); }
  bool has_token(std::int32_t id) const override { return bytes_.has_token(id); }
  bool is_special(std::int32_t id) const override { return bytes_.is_special(id); }
  std::int32_t vocab_size() const override { return vocabulary; }
  std::optional<std::int32_t> bos_id() const override { return 256; }
  std::optional<std::int32_t> eos_id() const override { return has_eos ? std::optional(257) : std::nullopt; }
  std::optional<std::int32_t> pad_id() const override { return std::nullopt; }
  std::optional<std::int32_t> unk_id() const override { return std::nullopt; }
  std::string fingerprint() const override { return name; }

  mutable int calls = 0;
  std::string name = "counting";
  std::int32_t vocabulary = 258;
  bool has_eos = true;

 private:
  BytesTokenizer bytes_;
};

class TextDocumentsTest : public testing::FolderTest {
 protected:
  TextDocumentsOptions options() const {
    TextDocumentsOptions result;
    result.cache_directory = folder_ / "cache";
    result.format.document_separator = "blank_line";
    return result;
  }

  std::vector<std::string> open(const TextDocumentsOptions& wanted) {
    const auto store = open_text_documents({folder_ / "a.txt"}, tokenizer_, wanted);
    std::vector<std::string> texts;
    for (std::int64_t document = 0; document < store->documents(); ++document) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(store->length(document)));
      store->read(document, 0, ids);
      for (auto& id : ids) id = id == 256 ? '<' : id == 257 ? '>' : id;
      texts.push_back(tokenizer_.decode(ids));
    }
    return texts;
  }

  /// Opens and tells whether the text was encoded for it.
  bool encodes(const TextDocumentsOptions& wanted) {
    const int before = tokenizer_.calls;
    open(wanted);
    return tokenizer_.calls > before;
  }

  /// The one folder of a finished cache.
  fs::path cache() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      if (entry.is_directory()) found.push_back(entry.path());
    }
    EXPECT_EQ(found.size(), 1U);
    return found.at(0);
  }

  CountingTokenizer tokenizer_;
};

TEST_F(TextDocumentsTest, DocumentsWithTheirEnds) {
  write("a.txt", "one\n\ntwo\nlines\n");
  EXPECT_THAT(open(options()), ElementsAre("<one>", "<two\nlines>"));
  auto bare = options();
  bare.add_bos = bare.add_eos = false;
  EXPECT_THAT(open(bare), ElementsAre("one", "two\nlines"));
}

TEST_F(TextDocumentsTest, WideVocabulariesAreStoredInFourBytes) {
  write("a.txt", "one\n\ntwo\n");
  tokenizer_.vocabulary = 65537;
  EXPECT_THAT(open(options()), ElementsAre("<one>", "<two>"));
  EXPECT_EQ(fs::file_size(cache() / "tokens.bin"), 10U * 4);
}

TEST_F(TextDocumentsTest, TheCacheIsReusedWhileNothingChanged) {
  write("a.txt", "one\n\ntwo\n");
  EXPECT_TRUE(encodes(options()));
  EXPECT_FALSE(encodes(options()));
  auto other = options();
  other.add_bos = false;
  EXPECT_TRUE(encodes(other));
  other = options();
  other.format.document_separator = "";
  EXPECT_TRUE(encodes(other));
  tokenizer_.name = "another";
  EXPECT_TRUE(encodes(options()));
  tokenizer_.name = "counting";
  EXPECT_FALSE(encodes(options())) << "the first is still there";
}

TEST_F(TextDocumentsTest, ChangedSourcesAreTokenizedAgain) {
  const auto file = write("a.txt", "one");
  EXPECT_TRUE(encodes(options()));
  const auto time = fs::last_write_time(file);
  write("a.txt", "other");
  fs::last_write_time(file, time);
  EXPECT_THAT(open(options()), ElementsAre("<other>"));
  write("a.txt", "OTHER");
  fs::last_write_time(file, time + std::chrono::seconds(1));
  EXPECT_THAT(open(options()), ElementsAre("<OTHER>"));
}

TEST_F(TextDocumentsTest, DamagedCachesAreBuiltAgain) {
  write("a.txt", "one\n\ntwo\n");
  open(options());
  for (const char* name : {"tokens.bin", "documents.bin", "manifest.json"}) {
    fs::resize_file(cache() / name, fs::file_size(cache() / name) - 2);
    EXPECT_TRUE(encodes(options())) << name << " truncated";
    EXPECT_FALSE(encodes(options()));
    fs::remove(cache() / name);
    EXPECT_TRUE(encodes(options())) << name << " removed";
    EXPECT_FALSE(encodes(options()));
  }
  EXPECT_THAT(open(options()), ElementsAre("<one>", "<two>"));
}

TEST_F(TextDocumentsTest, WhatAKilledBuildLeavesIsNotLoadedAndCleanedUp) {
  write("a.txt", "one\n\ntwo\n");
  open(options());
  // The same cache as a process leaves it that dies at any place before the rename: whole or partial, without or with
  // its manifest, but under a temporary name.
  const fs::path finished = cache();
  const fs::path abandoned = finished.string() + ".tmp-1";
  fs::rename(finished, abandoned);
  EXPECT_TRUE(encodes(options()));
  EXPECT_FALSE(fs::exists(abandoned));
  fs::create_directory(abandoned);
  std::ofstream(abandoned / "tokens.bin") << "half";
  fs::remove(finished / "manifest.json");
  EXPECT_TRUE(encodes(options()));
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_EQ(cache(), finished);
}

TEST_F(TextDocumentsTest, AFailingBuildLeavesNothing) {
  write("a.txt", "one\n\ntwo\xFF\n");
  EXPECT_THAT([&] { open(options()); }, ThrowsMessage<Error>(EndsWith("a.txt: not UTF-8 at byte 8")));
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) EXPECT_FALSE(entry.is_directory());
}

TEST_F(TextDocumentsTest, ACacheFolderThatCannotBeIsAnError) {
  write("a.txt", "one");
  auto wanted = options();
  wanted.cache_directory = write("file", "") / "cache";
  EXPECT_THAT([&] { open(wanted); }, ThrowsMessage<Error>(HasSubstr("cannot create folder")));
}

TEST_F(TextDocumentsTest, WantedEndsMustExist) {
  write("a.txt", "one");
  tokenizer_.has_eos = false;
  EXPECT_THAT([&] { open(options()); }, ThrowsMessage<ConfigError>(HasSubstr("add_eos=true")));
}

TEST_F(TextDocumentsTest, ADocumentInPartsHasTheTokensOfTheWhole) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < 300'000) {
    for (int letters = 1 + static_cast<int>(random() % 8); letters > 0; --letters) {
      text += static_cast<char>('a' + random() % 6);
    }
    text += random() % 9 == 0 ? "\n" : random() % 9 == 0 ? "  " : " ";
  }
  text += "end";
  SentencepieceTrainingOptions training;
  training.model_prefix = folder_ / "model";
  training.vocab_size = 500;
  train_sentencepiece(training, [&, done = false](std::string& line) mutable {
    line = text.substr(0, 50'000);
    return !std::exchange(done, true);
  });
  const auto tokenizer = open_tokenizer(folder_ / "model.model", "sentencepiece");
  auto wanted = options();
  wanted.add_bos = wanted.add_eos = false;
  const auto store = open_text_documents({write("long.txt", text)}, *tokenizer, wanted);
  ASSERT_EQ(store->documents(), 1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(store->length(0)));
  store->read(0, 0, ids);
  EXPECT_EQ(ids, tokenizer->encode(text));
  EXPECT_EQ(tokenizer->decode(ids), text);
}

/// VmHWM of /proc/self/status in bytes, after resetting it where that is possible.
std::int64_t peak_memory(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << 5;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

TEST_F(TextDocumentsTest, MemoryDoesNotGrowWithTheText) {
  {
    std::ofstream file(folder_ / "a.txt");
    std::string line(99, 'x');
    for (std::size_t i = 0; i < line.size(); i += 7) line[i] = ' ';
    for (int i = 0; i < 500'000; ++i) file << line << '\n';
  }
  auto wanted = options();
  wanted.format.document_separator = "";
  const std::int64_t before = peak_memory(true);
  const auto store = open_text_documents({folder_ / "a.txt"}, tokenizer_, wanted);
  const std::int64_t growth = peak_memory(false) - before;
  EXPECT_EQ(store->documents(), 1);
  EXPECT_EQ(store->length(0), 500'000 * 100 - 1 + 2);
  ASSERT_GT(before, 0);
  EXPECT_LT(growth, 8 << 20) << "50 MB of text, 100 MB of tokens";
}

}  // namespace
}  // namespace maxtext
