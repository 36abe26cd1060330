// The `added_tokens` of tokenizer.json: tokens that are found in a text before anything else is done with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/json_node.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/regex.h"
#include "tokenizer/token_table.h"

namespace maxtext {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  /// How it stands in the text that is searched, which is also what it is decoded to: its content, normalized if so.
  std::string spelling;
  /// Only where no word character stands on either side.
  bool single_word = false;
  /// Takes the white space on its left, or right, with it.
  bool lstrip = false;
  bool rstrip = false;
  /// Searched for in the normalized text, and normalized itself.
  bool normalized = false;
  /// A control token: decoding can skip it, and text can be kept from spelling it.
  bool special = false;
};

/// A part of a text: an added token, or text between them (id -1).
struct TextSegment {
  std::string_view text;
  std::int32_t id = -1;
};

/// Finds a set of added tokens in text: the leftmost, of several the longest.
class AddedTokenFinder {
 public:
  AddedTokenFinder();

  void add(const AddedToken& token);

  /// Calls `emit` with the parts of the text, in order. Without `parse_special`, special tokens are text.
  void split(std::string_view text, bool parse_special, RegexScratch& scratch,
             const std::function<void(const TextSegment&)>& emit) const;

 private:
  struct Node {
    std::int32_t token = -1;  // index of the token that ends here
    std::int32_t first_child = -1;
    std::int32_t sibling = -1;
    std::uint8_t byte = 0;
  };
  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t token = -1;
  };

  std::int32_t child(std::int32_t node, std::uint8_t byte) const;
  std::optional<Found> find(std::string_view text, std::size_t from) const;
  bool borders_word(std::string_view text, const Found& found, RegexScratch& scratch) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;                // a tree of bytes; the first is the root
  std::array<std::int32_t, 256> roots_{};  // children of the root, by byte; -1 where there is none
  std::optional<Regex> word_start_;        // where a token is single_word
};

/// All added tokens of a file.
class AddedTokens {
 public:
  /// Reads the list `node` (or none). A token that the vocabulary has under another id, and one id for two tokens, are
  /// ConfigErrors.
  AddedTokens(const std::optional<JsonNode>& node, const TokenTable& vocab, const Normalizer* normalizer);

  const AddedTokenFinder& in_text() const { return in_text_; }
  const AddedTokenFinder& in_normalized_text() const { return in_normalized_text_; }

  /// The token of an id or of a spelling, if it is one of these.
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;

  /// One more than the largest id.
  std::int32_t limit() const { return limit_; }

  /// Number of added tokens that the vocabulary has not got itself.
  std::int32_t beyond_vocab() const { return beyond_vocab_; }

 private:
  void add(const JsonNode& node, const TokenTable& vocab, const Normalizer* normalizer, RegexScratch& scratch);

  std::unordered_map<std::int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, std::int32_t> ids_;
  AddedTokenFinder in_text_;
  AddedTokenFinder in_normalized_text_;
  std::int32_t limit_ = 0;
  std::int32_t beyond_vocab_ = 0;
};

}  // namespace maxtext
