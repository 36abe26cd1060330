#include "tokenizer/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "testing/fixtures.h"
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

/// Wherever a whole character ends, prompt and answer may be told apart.
void expect_continuations(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  const std::string whole = replace_invalid_utf8(tokenizer.decode(ids));
  for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
    const std::span<const std::int32_t> prompt = std::span(ids).first(cut);
    const std::string before = replace_invalid_utf8(tokenizer.decode(prompt));
    if (!whole.starts_with(before)) continue;
    StreamDecoder stream(tokenizer);
    stream.begin_after(prompt);
    std::string text;
    for (const auto id : std::span(ids).subspan(cut)) text += stream.push(id);
    EXPECT_EQ(before + text + stream.flush(), whole) << "cut at " << cut;
  }
}

TEST(StreamDecoder, AContinuationIsWhatTheWholeHasMoreThanThePrompt) {
  const BytesTokenizer bytes;
  const auto llama2 = open_tokenizer(testing::fixture_root() / "tokenizers/llama2", "huggingface");
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{&bytes, llama2.get()}) {
    // Llama 2 has no tokens for most of these characters: runs of bytes, longer than a window.
    for (const std::string text :
         {"the river walked", "a  b   c ", " a", "\n a\n", "Zürich 漢字 😀 the",
          "😀😃😄😁😆😅😂🤣😊😇🙂🙃😉😌😍🥰😘😗😙😚 x", "a\xEF\xBF\xBD b"}) {
      auto ids = tokenizer->encode(text, {.add_special_tokens = true});
      expect_continuations(*tokenizer, ids);
      for (std::size_t at = 2; at < ids.size(); at += 3) {
        ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(at), *tokenizer->eos_id());
      }
      expect_continuations(*tokenizer, ids);
    }
  }
  StreamDecoder stream(*llama2);
  stream.begin_after(llama2->encode("Hi there", {.add_special_tokens = true}));
  EXPECT_EQ(stream.push(*llama2->token_to_id("▁strang")), " strang");
  EXPECT_EQ(stream.push(*llama2->token_to_id("ers")), "ers");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(*llama2->token_to_id("▁strang")), "strang") << "a new stream continues nothing";
}

/// What no token has gives nothing, in a prompt as elsewhere, and is no context.
TEST(StreamDecoder, APromptOfSpecialAndUnknownIdsAloneIsTheStartOfAText) {
  const auto llama2 = open_tokenizer(testing::fixture_root() / "tokenizers/llama2", "huggingface");
  StreamDecoder stream(*llama2);
  stream.begin_after(std::vector<std::int32_t>{1, 100000, 2, -1});
  EXPECT_EQ(stream.push(*llama2->token_to_id("▁strang")), "strang");
  EXPECT_EQ(stream.push(*llama2->token_to_id("▁the")), " the");
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
      expect_continuations(*tokenizer, ids);
      EXPECT_EQ(kept + keeping.flush(), tokenizer->decode(ids, SpecialTokens::keep));
      EXPECT_EQ(kept, specials ? "<s> " + text : text);
    }
  }
}

}  // namespace
}  // namespace maxtext
