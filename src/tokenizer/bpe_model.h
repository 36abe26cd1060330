// Byte pair encoding as Hugging Face's tokenizers library does it: a word starts as its characters (or bytes) and
// neighbours merge by rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/neighbour_set.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/word_cache.h"

namespace maxtext {

/// Settings of `model` in tokenizer.json.
struct BpeOptions {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  /// Consecutive unknown characters become one unknown token.
  bool fuse_unk = false;
  /// Unknown characters become the tokens "<0xNN>" of their bytes where the vocabulary has those.
  bool byte_fallback = false;
  /// A word that is a token is that token, whatever the merges make of it.
  bool ignore_merges = false;
};

/// Throws ConfigError for another model type than BPE and for dropout.
BpeOptions parse_bpe_options(const JsonNode& node);

/// Whether a model can take words as bytes still to be written in the byte alphabet (byte_alphabet.h): when that is all
/// a word's characters need.
bool can_take_bytes(const TokenTable& vocab, const BpeOptions& options);

/// What encoding writes to; one per thread.
struct BpeScratch {
  WordCache cache;
  Merger merger;
  std::vector<std::int32_t> word;
};

class BpeModel {
 public:
  /// With `takes_bytes`, words are bytes still to be written in the byte alphabet. Throws ConfigError for a merge or an
  /// unknown token that the vocabulary lacks.
  BpeModel(TokenizerFile file, BpeOptions options, bool takes_bytes);

  const TokenTable& vocab() const { return vocab_; }
  std::optional<std::int32_t> unk_id() const { return unk_id_; }

  /// Appends the ids of a word. Costs a look-up for words seen before. A word longer than the cache takes is first cut
  /// wherever its neighbours never merge, which changes nothing: a whole text without cuts between words, as models
  /// made from SentencePiece see it, becomes words again.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  /// Ids by byte; -1 where there is none.
  using ByteIds = std::array<std::int32_t, 256>;

  void find_bytes();
  void read_merges(const StringList& merges, const std::string& name);
  std::int32_t side(std::string_view token, std::size_t merge, const std::string& name) const;
  bool stands_in(std::int32_t id) const;
  void add_neighbours(std::string_view left, std::string_view right);

  void encode_part(std::string_view part, bool whole, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;
  void encode_in_parts(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;
  bool may_cut(std::string_view word, std::size_t previous, std::size_t at, std::size_t end) const;
  std::optional<std::int32_t> whole_word(std::string_view word) const;
  void start_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  void start_characters(std::string_view word, std::vector<std::int32_t>& ids) const;
  bool append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const;

  TokenTable vocab_;
  BpeOptions options_;
  bool takes_bytes_;
  std::optional<std::int32_t> unk_id_;
  ByteIds byte_ids_{};      // of the byte alphabet
  ByteIds fallback_ids_{};  // "<0xNN>"
  bool complete_fallback_ = false;
  MergeTable merges_;
  NeighbourSet neighbours_;
  bool cuts_ = false;
};

}  // namespace maxtext
