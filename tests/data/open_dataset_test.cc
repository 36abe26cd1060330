#include "data/open_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset_factory.h"
#include "data/temporary_folder.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class OpenDatasetTest : public testing::FolderTest {
 protected:
  DatasetOptions options(const std::string& type) const {
    DatasetOptions result;
    result.type = type;
    result.sequence_length = 16;
    result.vocab_size = 258;
    result.tokenizer_type = "bytes";
    result.cache_directory = folder_ / "cache";
    return result;
  }

  std::string lines(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) text += "document " + std::to_string(i) + "\n\n";
    return text;
  }
};

TEST_F(OpenDatasetTest, TextWithAHeldOutShare) {
  auto text = options("text");
  text.train_files = {write("a.txt", lines(100)).string()};
  text.train_format.document_separator = "blank_line";
  text.eval_fraction = 0.1;
  text.packing = false;
  EXPECT_TRUE(has_eval_split(text));
  EXPECT_EQ(open_dataset(text, Split::train)->row_count(), 90);
  const auto eval = open_dataset(text, Split::eval);
  EXPECT_EQ(eval->row_count(), 10);
  EXPECT_EQ(eval->read(0, 10), open_dataset(text, Split::eval)->read(0, 10));
}

TEST_F(OpenDatasetTest, TextWithFilesOfItsOwnHeldOut) {
  auto text = options("text");
  text.train_files = {write("a.txt", lines(30)).string()};
  text.eval_files = {write("b.jsonl", "{\"body\": \"x\"}\n{\"body\": \"y\"}\n").string()};
  text.train_format.document_separator = "blank_line";
  text.eval_format.jsonl_field = "body";
  text.packing = false;
  text.epochs = 5;
  EXPECT_EQ(open_dataset(text, Split::train)->row_count(), 150);
  const auto eval = open_dataset(text, Split::eval);
  EXPECT_EQ(eval->row_count(), 2) << "one pass";
  EXPECT_EQ(eval->read(0, 2)->inputs[1], 'x');
  EXPECT_EQ(eval->read(0, 2)->inputs[17], 'y');
}

TEST_F(OpenDatasetTest, Tokens) {
  auto tokens = options("tokens");
  tokens.train_files = {write_array<std::uint16_t>("a.bin", {5, 6, 0, 7, 8, 9, 0}).string()};
  tokens.separator_id = 0;
  tokens.packing = false;
  EXPECT_EQ(open_dataset(tokens, Split::train)->row_count(), 2);
  tokens.separator_id = 300;
  EXPECT_THAT([&] { open_dataset(tokens, Split::train); },
              ThrowsMessage<ConfigError>(HasSubstr("document_separator_id=300")));
}

TEST_F(OpenDatasetTest, WhatIsWrongBeforeReadingIsAConfigError) {
  const auto expect = [](const DatasetOptions& wrong, Split split, const std::string& message) {
    EXPECT_THAT([&] { open_dataset(wrong, split); }, ThrowsMessage<ConfigError>(HasSubstr(message)));
  };
  auto wrong = options("text");
  expect(wrong, Split::train, "train_files: expected files, folders or globs");
  wrong.train_files = {"/no/such/file"};
  expect(wrong, Split::train, "train_files: no such file, folder or match: /no/such/file");
  wrong.train_files = {write("a.txt", "text").string()};
  expect(wrong, Split::eval, "there is no held-out data");
  wrong.eval_files = {"/no/such/eval"};
  expect(wrong, Split::eval, "eval_files: no such file, folder or match: /no/such/eval");
  wrong.vocab_size = 100;
  expect(wrong, Split::train, "vocab_size=100: the tokenizer");
  wrong.tokenizer_type = "sentencepiece";
  wrong.tokenizer_path = "/no.model";
  expect(wrong, Split::train, "tokenizer_path=/no.model: no such file");
  auto batches = options("batches");
  batches.eval_fraction = 0.1;
  expect(batches, Split::eval, "needs files of its own");
  expect(options("tfds"), Split::train, "dataset_type: expected synthetic, text, tokens or batches, got 'tfds'");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

/// The bytes tokenizer gives the ids of bytes, and 257 at the end of a document.
TEST_F(OpenDatasetTest, ATokenizerLargerThanTheModelMayDoForATextWithoutSuchTokens) {
  auto text = options("text");
  text.checks_each_token = true;
  text.add_bos = false;
  text.add_eos = false;
  text.vocab_size = 'c';
  text.tokenizer = open_tokenizer("", "bytes");
  text.tokenizer_type = "not read";
  text.packing = false;
  text.train_format.document_separator = "blank_line";
  text.train_files = {write("a.txt", "ab\n\nba").string()};
  EXPECT_EQ(open_dataset(text, Split::train)->row_count(), 2);
  text.train_files.push_back(write("b.txt", "a\n\n" + std::string(70000, 'a') + "c").string());
  const std::string message =
      text.train_files[0] + " and 1 more files: document 4: the tokenizer gives the id 99 ('<0x63>')";
  EXPECT_THAT([&] { open_dataset(text, Split::train); }, ThrowsMessage<ConfigError>(HasSubstr(message)));
}

TEST_F(OpenDatasetTest, SourcesAreCheckedWithoutReadingThem) {
  const auto expect = [](const DatasetOptions& wrong, Split split, const std::string& message) {
    EXPECT_THAT([&] { source_files(wrong, split); }, ThrowsMessage<ConfigError>(HasSubstr(message)));
    EXPECT_THAT([&] { open_dataset(wrong, split); }, ThrowsMessage<ConfigError>(HasSubstr(message))) << "the same";
  };
  const std::string empty_folder = (folder_ / "empty").string();
  std::filesystem::create_directory(empty_folder);
  std::filesystem::create_directory(folder_ / "notes");
  write("notes/a.pdf", "text");
  auto text = options("text");
  text.train_files = {write("a.txt", "text").string()};
  for (const std::string& folder : {empty_folder, (folder_ / "notes").string()}) {
    text.eval_files = {folder};
    expect(text, Split::eval,
           "eval_files: no files to read in folder " + folder + "; those that end in .txt, .text, .md, .jsonl are");
  }
  auto tokens = options("tokens");
  tokens.train_files = {write_array<std::uint16_t>("a.bin", {5, 6, 0}).string()};
  tokens.eval_files = {write("a.tokens", "ab").string()};
  source_files(tokens, Split::train);
  expect(tokens, Split::eval, "eval_files: " + tokens.eval_files[0] + ": expected a .npy or .bin file of token ids");
  tokens.eval_files = {write("a.idx", "").string()};
  expect(tokens, Split::eval, "eval_files: only indices");
  EXPECT_TRUE(source_files(options("synthetic"), Split::eval).empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

TEST_F(OpenDatasetTest, SyntheticNeedsNothing) {
  const auto train = open_dataset(options("synthetic"), Split::train);
  const auto eval = open_dataset(options("synthetic"), Split::eval);
  EXPECT_EQ(train->row_count(), std::nullopt);
  EXPECT_EQ(eval->row_count(), kSyntheticEvalRows);
  EXPECT_NE(train->read(0, 1), eval->read(0, 1));
}

TEST_F(OpenDatasetTest, TheConfigurationsKeysArrive) {
  Config config;
  const auto set = [&](const char* key, const std::string& value) {
    config.set(key, value, {SourceKind::command_line, "command line"});
  };
  set("dataset_type", "text");
  set("train_files", (folder_ / "a.txt").string());
  set("eval_files", (folder_ / "b.jsonl").string());
  set("train_data_columns", "body");
  set("document_separator", "blank_line");
  set("tokenizer_type", "bytes");
  set("add_bos", "false");
  set("max_target_length", "77");
  set("packing", "false");
  set("max_segments_per_seq", "5");
  set("enable_data_shuffling", "false");
  set("data_shuffle_seed", "9");
  set("num_epoch", "4");
  set("document_separator_id", "3");
  set("token_file_dtype", "uint32");
  set("dataset_cache_directory", (folder_ / "cache").string());
  const DatasetOptions options = dataset_options(config, 1234);
  EXPECT_EQ(options.type, "text");
  EXPECT_EQ(options.vocab_size, 1234);
  EXPECT_EQ(options.sequence_length, 77);
  EXPECT_EQ(options.train_files, std::vector<std::string>{(folder_ / "a.txt").string()});
  EXPECT_EQ(options.eval_files, std::vector<std::string>{(folder_ / "b.jsonl").string()});
  EXPECT_EQ(options.train_format, (TextFormat{"body", "blank_line"}));
  EXPECT_EQ(options.eval_format, (TextFormat{"text", "blank_line"}));
  EXPECT_EQ(options.tokenizer_type, "bytes");
  EXPECT_EQ(dataset_options(Config(), 1).tokenizer_type, "") << "by what is there, as nobody gave it";
  EXPECT_FALSE(options.add_bos);
  EXPECT_TRUE(options.add_eos);
  EXPECT_FALSE(options.packing);
  EXPECT_EQ(options.max_segments, 5);
  EXPECT_FALSE(options.shuffle);
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(options.epochs, 4);
  EXPECT_EQ(options.separator_id, 3);
  EXPECT_EQ(options.token_type, IntegerType::uint32);
  EXPECT_EQ(options.cache_directory, folder_ / "cache");
}

}  // namespace
}  // namespace maxtext
