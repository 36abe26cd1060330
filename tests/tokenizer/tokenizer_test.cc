#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "tokenizer/sentencepiece_trainer.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class SentencepieceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("tokenizer-" + std::to_string(::getpid()) + "-" +
                                                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static LineSource counting_lines(int count) {
    return [count, i = 0](std::string& line) mutable {
      static const char* const kWords[] = {"river", "mountain", "walked", "towards", "the", "and", "light", "evening"};
      static const char* const kEnds[] = {"s", "ing", "less", "ward", "", "ed", ""};
      if (i == count) return false;
      line.clear();
      for (int k = 0; k < 9; ++k) {
        line += std::string(kWords[(i * 7 + k * k * 3 + k) % 8]) + kEnds[(i * i + k) % 7] + (k % 4 == 3 ? ", " : " ");
      }
      line += std::to_string(i * 37);
      ++i;
      return true;
    };
  }

  SentencepieceTrainingOptions options(const std::string& type = "bpe") const {
    SentencepieceTrainingOptions result;
    result.model_prefix = folder_ / "model";
    result.model_type = type;
    result.vocab_size = 330;
    return result;
  }

  std::filesystem::path folder_;
};

TEST_F(SentencepieceTest, RoundTripsWhatItWasTrainedOnAndWhatItWasNot) {
  for (const std::string type : {"bpe", "unigram"}) {
    train_sentencepiece(options(type), counting_lines(200));
    const auto tokenizer = open_tokenizer(folder_ / "model.model", "sentencepiece");
    EXPECT_EQ(tokenizer->vocab_size(), 330);
    EXPECT_EQ(tokenizer->unk_id(), 0);
    EXPECT_EQ(tokenizer->bos_id(), 1);
    EXPECT_EQ(tokenizer->eos_id(), 2);
    EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
    for (const std::string text :
         {"the river walked towards the mountain", "", "  two  spaces ", "line\nline\n\n\tline",
          "Z\xc3\xbcrich \xe2\x82\xac 5", "\xf0\x9f\x98\x80", "0123456789"}) {
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << type;
    }
    EXPECT_LT(tokenizer->encode("the river walked").size(), 12U) << "pieces longer than letters were learned";
  }
}

TEST_F(SentencepieceTest, TrainingTwiceGivesTheSameModel) {
  train_sentencepiece(options("unigram"), counting_lines(200));
  const std::string first = open_tokenizer(folder_ / "model.model", "sentencepiece")->fingerprint();
  train_sentencepiece(options("unigram"), counting_lines(200));
  EXPECT_EQ(open_tokenizer(folder_ / "model.model", "sentencepiece")->fingerprint(), first);
  train_sentencepiece(options("bpe"), counting_lines(200));
  EXPECT_NE(open_tokenizer(folder_ / "model.model", "sentencepiece")->fingerprint(), first);
}

TEST_F(SentencepieceTest, ContinuationJoinsWithoutATrace) {
  train_sentencepiece(options(), counting_lines(200));
  const auto tokenizer = open_tokenizer(folder_ / "model.model", "sentencepiece");
  const std::string text = "the river walked, towards the light\nand the evening 12";
  const auto whole = tokenizer->encode(text);
  int cuts = 0;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != ' ') continue;
    auto joined = tokenizer->encode(text.substr(0, i));
    for (const auto id : tokenizer->encode_continuation(text.substr(i))) joined.push_back(id);
    EXPECT_EQ(joined, whole) << i;
    ++cuts;
  }
  EXPECT_EQ(cuts, 8);
}

TEST_F(SentencepieceTest, LinesBeyondTheLibrarysLimitAreCutNotDropped) {
  // One line of 40 KB: dropping it, as the library does by itself, would leave no text to train on.
  const LineSource one_line = [done = false](std::string& line) mutable {
    if (done) return false;
    const LineSource parts = counting_lines(600);
    for (std::string part; parts(part);) line += part + " ";
    return done = true;
  };
  train_sentencepiece(options(), one_line);
  EXPECT_EQ(open_tokenizer(folder_ / "model.model", "sentencepiece")->vocab_size(), 330);
}

TEST_F(SentencepieceTest, WrongOptionsAreConfigErrors) {
  auto wrong = options();
  wrong.vocab_size = 200;
  EXPECT_THAT([&] { train_sentencepiece(wrong, counting_lines(9)); },
              ThrowsMessage<ConfigError>(HasSubstr("vocab_size: expected at least 260")));
  wrong = options("wordpiece");
  EXPECT_THAT([&] { train_sentencepiece(wrong, counting_lines(9)); },
              ThrowsMessage<ConfigError>(HasSubstr("bpe or unigram, got 'wordpiece'")));
  wrong = options();
  wrong.vocab_size = 50000;
  EXPECT_THAT([&] { train_sentencepiece(wrong, counting_lines(200)); },
              ThrowsMessage<ConfigError>(HasSubstr("vocab_size 50000")));
  wrong = options("unigram");
  wrong.vocab_size = 50000;
  EXPECT_THAT([&] { train_sentencepiece(wrong, counting_lines(200)); },
              ThrowsMessage<ConfigError>(HasSubstr("vocab_size 50000")));
  EXPECT_THAT([&] { train_sentencepiece(options(), [](std::string&) { return false; }); },
              ThrowsMessage<ConfigError>(HasSubstr("empty")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model.model"));
}

TEST_F(SentencepieceTest, AFailingSourceStopsTrainingWithItsReason) {
  const LineSource failing = [n = 0](std::string& line) mutable {
    if (n++ == 5) fail("line 5 is broken");
    line = "some text";
    return true;
  };
  EXPECT_THAT([&] { train_sentencepiece(options(), failing); }, ThrowsMessage<Error>("line 5 is broken"));
}

TEST_F(SentencepieceTest, RefusesIllFormedTextAndIds) {
  train_sentencepiece(options(), counting_lines(200));
  const auto tokenizer = open_tokenizer(folder_ / "model.model", "sentencepiece");
  EXPECT_THAT([&] { tokenizer->encode("ab\xff"); }, ThrowsMessage<Error>(HasSubstr("byte 2")));
  const std::int32_t ids[] = {5, 330};
  EXPECT_THAT([&] { tokenizer->decode(ids); }, ThrowsMessage<Error>(HasSubstr("token id 330 at index 1")));
}

TEST_F(SentencepieceTest, OpeningTheWrongThingSaysSo) {
  EXPECT_THAT([&] { open_tokenizer(folder_ / "no.model", "sentencepiece"); },
              ThrowsMessage<ConfigError>(HasSubstr("no such file")));
  EXPECT_THAT([&] { open_tokenizer("", "sentencepiece"); }, ThrowsMessage<ConfigError>(HasSubstr("got nothing")));
  EXPECT_THAT([&] { open_tokenizer("", "tiktoken"); }, ThrowsMessage<ConfigError>(HasSubstr("got 'tiktoken'")));
  std::ofstream(folder_ / "junk.model") << "this is not a protobuf";
  EXPECT_THAT([&] { open_tokenizer(folder_ / "junk.model", "sentencepiece"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("junk.model: not a sentencepiece model"),
                                               HasSubstr("expected a .model file"), Not(HasSubstr("processor")))));
}

TEST_F(SentencepieceTest, AFolderStandsForTheModelInIt) {
  train_sentencepiece(options(), counting_lines(200));
  std::filesystem::rename(folder_ / "model.model", folder_ / "tokenizer.model");
  EXPECT_EQ(open_tokenizer(folder_, "sentencepiece")->fingerprint(),
            open_tokenizer(folder_ / "tokenizer.model", "sentencepiece")->fingerprint());
}

TEST_F(SentencepieceTest, KnowsItsTokensAndAddsBosWhenAsked) {
  train_sentencepiece(options(), counting_lines(200));
  const auto tokenizer = open_tokenizer(folder_ / "model.model", "sentencepiece");
  auto ids = tokenizer->encode("the river");
  for (const auto id : ids) EXPECT_EQ(tokenizer->token_to_id(tokenizer->id_to_token(id)), id);
  EXPECT_EQ(tokenizer->token_to_id("no such piece"), std::nullopt);
  EXPECT_EQ(tokenizer->token_to_id("<unk>"), 0);
  EXPECT_TRUE(tokenizer->is_special(1) && tokenizer->is_special(2));
  EXPECT_FALSE(tokenizer->is_special(ids[0]) || tokenizer->is_special(330));
  ids.insert(ids.begin(), 1);
  EXPECT_EQ(tokenizer->encode("the river", {.add_special_tokens = true}), ids);
  ids.push_back(2);
  EXPECT_EQ(tokenizer->decode(ids), "the river");
  EXPECT_EQ(tokenizer->decode(ids, SpecialTokens::keep), "<s> the river</s>");
  EXPECT_EQ(tokenizer->encode("</s>"), tokenizer->encode("</s>", {.parse_special_tokens = false}));
  EXPECT_THROW(tokenizer->id_to_token(330), Error);
}

TEST(BytesTokenizer, IsTheIdentityOnBytes) {
  const auto tokenizer = open_tokenizer("", "bytes");
  const std::string text = "a\n\xc3\xa9";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{97, 10, 0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->decode(ids), text);
  const std::int32_t with_controls[] = {256, 97, 257};
  EXPECT_EQ(tokenizer->decode(with_controls), "a");
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_THAT([&] { tokenizer->encode("ab\xff"); }, ThrowsMessage<Error>(HasSubstr("byte 2")));
  EXPECT_EQ(tokenizer->encode("a", {.add_special_tokens = true}), (std::vector<std::int32_t>{256, 97}));
  EXPECT_EQ(tokenizer->decode(with_controls, SpecialTokens::keep), "<bos>a<eos>");
  for (std::int32_t id = 0; id < 258; ++id) EXPECT_EQ(tokenizer->token_to_id(tokenizer->id_to_token(id)), id);
  EXPECT_THROW(tokenizer->id_to_token(258), Error);
}

}  // namespace
}  // namespace maxtext
