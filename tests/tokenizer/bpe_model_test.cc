#include "tokenizer/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

using Ids = std::vector<std::int32_t>;

/// A vocabulary of single characters and of random merges, as training would make them: each joins two tokens.
struct RandomBpe {
  TokenizerFile file{.name = "random", .components = {}, .vocab = {}, .merges = {}};
  std::vector<std::pair<std::string, std::string>> merges;
};

RandomBpe random_bpe(std::mt19937& random, const std::vector<std::string>& characters, int count) {
  RandomBpe result;
  std::vector<std::string> tokens = characters;
  for (const auto& token : tokens) result.file.vocab.add(token, result.file.vocab.size());
  while (static_cast<int>(result.merges.size()) < count) {
    const auto& left = tokens[random() % tokens.size()];
    const auto& right = tokens[random() % tokens.size()];
    const std::string merged = left + right;
    if (merged.size() > 40 || !result.file.vocab.add(merged, result.file.vocab.size())) continue;
    result.merges.emplace_back(left, right);
    result.file.merges.push_back(left);
    result.file.merges.push_back(right);
    tokens.push_back(merged);
  }
  return result;
}

/// Merges the pair of lowest rank, leftmost first, over the whole word, until none is left.
Ids brute_force(const RandomBpe& bpe, const TokenTable& vocab, std::vector<std::string> symbols) {
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < bpe.merges.size(); ++i) ranks[bpe.merges[i]] = i;
  while (true) {
    std::size_t best = std::numeric_limits<std::size_t>::max();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == std::numeric_limits<std::size_t>::max()) break;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const auto& symbol : symbols) ids.push_back(vocab.find(symbol).value());
  return ids;
}

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (std::size_t i = 0; i < text.size(); i += utf8_length(text[i])) {
    characters.push_back(text.substr(i, utf8_length(text[i])));
  }
  return characters;
}

TEST(BpeModel, EqualsMergingOneByOneForWordsOfAnyLength) {
  std::mt19937 random(7);
  const std::vector<std::string> alphabet = {"a", "b", "c", "d", "é", "▁", "漢"};
  for (int round = 0; round < 40; ++round) {
    RandomBpe bpe = random_bpe(random, alphabet, 3 + static_cast<int>(random() % 40));
    const BpeModel model(bpe.file, {}, false);
    BpeScratch scratch;
    for (int word = 0; word < 40; ++word) {
      std::string text;
      const std::size_t length = 1 + random() % (word % 4 == 0 ? 400 : 30);
      for (std::size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
      const Ids wanted = brute_force(bpe, model.vocab(), characters_of(text));
      for (int again = 0; again < 2; ++again) {
        Ids ids;
        model.encode(text, scratch, ids);
        EXPECT_EQ(ids, wanted) << text << (again == 1 ? " from the cache" : "");
      }
    }
  }
}

TEST(BpeModel, WordsGivenAsBytesAreWordsInTheByteAlphabet) {
  std::mt19937 random(8);
  std::vector<std::string> alphabet;
  for (int byte = 0; byte < 256; ++byte)
    alphabet.push_back(to_byte_characters(std::string(1, static_cast<char>(byte))));
  for (int round = 0; round < 10; ++round) {
    for (const bool ignore_merges : {false, true}) {
      RandomBpe bpe = random_bpe(random, alphabet, 20000);
      BpeOptions options;
      options.ignore_merges = ignore_merges;
      ASSERT_TRUE(can_take_bytes(bpe.file.vocab, options));
      const BpeModel bytes(bpe.file, options, true);
      const BpeModel characters(bpe.file, options, false);
      BpeScratch byte_scratch;
      BpeScratch scratch;
      for (int word = 0; word < 60; ++word) {
        std::string text;
        const std::size_t length = 1 + random() % (word % 3 == 0 ? 300 : 12);
        for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(random() % 256);
        Ids ids;
        Ids wanted;
        bytes.encode(text, byte_scratch, ids);
        characters.encode(to_byte_characters(text), scratch, wanted);
        EXPECT_EQ(ids, wanted);
        if (ignore_merges) continue;
        EXPECT_EQ(ids, brute_force(bpe, bytes.vocab(), characters_of(to_byte_characters(text))));
      }
    }
  }
}

TEST(BpeModel, TakesBytesOnlyWhenEveryByteIsAToken) {
  TokenTable vocab;
  for (int byte = 0; byte < 255; ++byte) vocab.add(to_byte_characters(std::string(1, static_cast<char>(byte))), byte);
  EXPECT_FALSE(can_take_bytes(vocab, {}));
  vocab.add(to_byte_characters("\xff"), 255);
  EXPECT_TRUE(can_take_bytes(vocab, {}));
  BpeOptions affixed;
  affixed.end_of_word_suffix = "</w>";
  EXPECT_FALSE(can_take_bytes(vocab, affixed));
}

TEST(ByteAlphabet, IsOneCharacterPerByteAndBack) {
  std::set<char32_t> characters;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = byte_character(static_cast<std::uint8_t>(byte));
    characters.insert(character);
    EXPECT_EQ(character_byte(character), byte);
  }
  EXPECT_EQ(characters.size(), 256U);
  EXPECT_EQ(byte_character('A'), U'A');
  EXPECT_EQ(byte_character(' '), U'\u0120');
  EXPECT_EQ(byte_character('\n'), U'\u010A');
  EXPECT_EQ(byte_character(0xAD), U'\u0143');
  EXPECT_EQ(character_byte(U'\u0144'), std::nullopt);
  EXPECT_EQ(character_byte(U' '), std::nullopt);
  EXPECT_EQ(from_byte_characters("a b"), std::nullopt);
}

}  // namespace
}  // namespace maxtext
