#include "tokenizer/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "testing/temporary_directory.h"
#include "tokenizer/bytes_tokenizer.h"
#include "tokenizer/sentencepiece_trainer.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

// The pieces that Hugging Face's DecodeStream gives are tested in hf_tokenizer_golden_test.cc.

TEST(StreamDecoder, HoldsBackACharacterUntilItIsWhole) {
  const BytesTokenizer tokenizer;
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.push(257), "") << "eos is skipped";
  EXPECT_EQ(stream.flush(), "");
}

TEST(StreamDecoder, TheEndTurnsWhatIsNoCharacterIntoReplacements) {
  const BytesTokenizer tokenizer;
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xE3), "");
  EXPECT_EQ(stream.flush(), kBad);
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(0xE3), "");
  EXPECT_EQ(stream.push('b'), kBad + "b");
}

TEST(StreamDecoder, AnIdWithoutATokenGivesNothing) {
  const BytesTokenizer tokenizer;
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push(100000), "");
  EXPECT_EQ(stream.push(-1), "");
  EXPECT_EQ(stream.push(0xA9), "\xC3\xA9");
}

TEST(StreamDecoder, KeepsSpecialTokensWhenAsked) {
  const BytesTokenizer tokenizer;
  StreamDecoder stream(tokenizer, SpecialTokens::keep);
  EXPECT_EQ(stream.push(256), "<bos>");
  EXPECT_EQ(stream.push('a'), "a");
}

TEST(StreamDecoder, AnyBytesGiveTheTextOfTheWholeAndNeverWaitForLong) {
  const BytesTokenizer tokenizer;
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> ids(1 + random() % 300);
    for (auto& id : ids)
      id = static_cast<std::int32_t>(random() % (round % 2 == 0 ? 258 : 4) + (round % 2 == 0 ? 0 : 0xC3));
    StreamDecoder stream(tokenizer);
    std::string text;
    int waited = 0;
    for (const auto id : ids) {
      const std::string piece = stream.push(id);
      EXPECT_FALSE(first_invalid_utf8(piece));
      waited = piece.empty() ? waited + 1 : 0;
      EXPECT_LE(waited, 65);
      text += piece;
    }
    text += stream.flush();
    if (round % 2 == 0) {
      EXPECT_EQ(text, replace_invalid_utf8(tokenizer.decode(ids)));
    } else {
      EXPECT_FALSE(first_invalid_utf8(text));
    }
  }
}

TEST(StreamDecoder, SentencepieceTextIsThatOfTheWhole) {
  const testing::TemporaryDirectory folder;
  SentencepieceTrainingOptions options;
  options.model_prefix = folder.path() / "model";
  options.vocab_size = 300;
  train_sentencepiece(options, [left = 300](std::string& line) mutable {
    line = "the river walked towards the mountain and the light " + std::to_string(left);
    return --left > 0;
  });
  const auto tokenizer = open_tokenizer(folder.path() / "model.model", "sentencepiece");
  for (const std::string text : {"the river", " two  spaces ", "Zürich 漢字 😀 the", "😀"}) {
    for (const bool specials : {false, true}) {
      const auto ids = tokenizer->encode(text, {.add_special_tokens = specials});
      EXPECT_EQ(ids.front() == 1, specials);
      StreamDecoder stream(*tokenizer);
      StreamDecoder keeping(*tokenizer, SpecialTokens::keep);
      std::string streamed;
      std::string kept;
      for (const auto id : ids) {
        streamed += stream.push(id);
        kept += keeping.push(id);
        EXPECT_FALSE(first_invalid_utf8(streamed));
      }
      EXPECT_EQ(streamed + stream.flush(), text);
      EXPECT_EQ(kept + keeping.flush(), tokenizer->decode(ids, SpecialTokens::keep));
      EXPECT_EQ(kept, specials ? "<s> " + text : text);
    }
  }
}

}  // namespace
}  // namespace maxtext
