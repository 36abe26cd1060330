#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

/// A word character of Rust's regular expressions at the place where the search starts.
constexpr const char* kWordStart = R"(\G[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}])";

std::size_t without_space_at_end(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t last = utf8_boundary(text, end - 1);
    if (!is_white_space(utf8_at(text, last))) break;
    end = last;
  }
  return end;
}

std::size_t without_space_at_start(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_white_space(utf8_at(text, begin))) begin += utf8_length(text[begin]);
  return begin;
}

AddedToken parse_token(const JsonNode& node) {
  AddedToken token;
  const std::int64_t id = node.at("id").integer();
  if (id < 0 || id > TokenTable::kLargestId) {
    node.refuse("id: expected 0 to {}, found {}", TokenTable::kLargestId, id);
  }
  token.id = static_cast<std::int32_t>(id);
  token.content = node.text("content");
  token.single_word = node.boolean_or("single_word", false);
  token.lstrip = node.boolean_or("lstrip", false);
  token.rstrip = node.boolean_or("rstrip", false);
  token.special = node.boolean_or("special", false);
  token.normalized = node.boolean_or("normalized", !token.special);
  return token;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder() : nodes_(1) { roots_.fill(-1); }

void AddedTokenFinder::add(const AddedToken& token) {
  if (token.spelling.empty()) return;
  std::int32_t node = 0;
  for (const char c : token.spelling) {
    const auto byte = static_cast<std::uint8_t>(c);
    std::int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({-1, -1, nodes_[static_cast<std::size_t>(node)].first_child, byte});
      nodes_[static_cast<std::size_t>(node)].first_child = next;
      if (node == 0) roots_[byte] = next;
    }
    node = next;
  }
  // Of two tokens that are normalized to the same spelling, the first counts.
  auto& end = nodes_[static_cast<std::size_t>(node)];
  if (end.token >= 0) return;
  end.token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  if (token.single_word && !word_start_) word_start_.emplace(kWordStart);
}

std::int32_t AddedTokenFinder::child(std::int32_t node, std::uint8_t byte) const {
  if (node == 0) return roots_[byte];
  std::int32_t next = nodes_[static_cast<std::size_t>(node)].first_child;
  while (next >= 0 && nodes_[static_cast<std::size_t>(next)].byte != byte) {
    next = nodes_[static_cast<std::size_t>(next)].sibling;
  }
  return next;
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::int32_t node = roots_[static_cast<std::uint8_t>(text[begin])];
    Found longest;
    for (std::size_t end = begin + 1; node >= 0; ++end) {
      const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
      if (token >= 0) longest = {begin, end, token};
      if (end == text.size()) break;
      node = child(node, static_cast<std::uint8_t>(text[end]));
    }
    if (longest.token >= 0) return longest;
  }
  return std::nullopt;
}

bool AddedTokenFinder::borders_word(std::string_view text, const Found& found, RegexScratch& scratch) const {
  const auto is_word = [&](std::size_t at) { return word_start_->find(text, at, scratch).has_value(); };
  return (found.begin > 0 && is_word(utf8_boundary(text, found.begin - 1))) ||
         (found.end < text.size() && is_word(found.end));
}

void AddedTokenFinder::split(std::string_view text, bool parse_special, RegexScratch& scratch,
                             const std::function<void(const TextSegment&)>& emit) const {
  std::size_t done = 0;
  std::size_t from = 0;
  while (const auto found = tokens_.empty() ? std::nullopt : find(text, from)) {
    from = found->end;
    const AddedToken& token = tokens_[static_cast<std::size_t>(found->token)];
    if (token.special && !parse_special) continue;
    if (token.single_word && borders_word(text, *found, scratch)) continue;
    // White space may already belong to the token before.
    const std::size_t begin = std::max(done, token.lstrip ? without_space_at_end(text, found->begin) : found->begin);
    const std::size_t end = token.rstrip ? without_space_at_start(text, found->end) : found->end;
    if (done < begin) emit({text.substr(done, begin - done), -1});
    emit({text.substr(std::min(begin, end), end - std::min(begin, end)), token.id});
    done = std::max(done, end);
  }
  if (done < text.size()) emit({text.substr(done), -1});
}

AddedTokens::AddedTokens(const std::optional<JsonNode>& node, const TokenTable& vocab, const Normalizer* normalizer) {
  if (!node) return;
  RegexScratch scratch;
  for (const JsonNode& token : node->list()) add(token, vocab, normalizer, scratch);
}

void AddedTokens::add(const JsonNode& node, const TokenTable& vocab, const Normalizer* normalizer,
                      RegexScratch& scratch) {
  AddedToken token = parse_token(node);
  if (token.content.empty()) return;  // the library ignores them
  const auto known = vocab.find(token.content);
  if (known && *known != token.id) {
    node.refuse("'{}' has id {} here and {} in model.vocab", token.content, token.id, *known);
  }
  if (!known && vocab.has(token.id)) {
    node.refuse("id {} of '{}' is that of '{}' in model.vocab", token.id, token.content, vocab.token(token.id));
  }
  if (find(token.id) != nullptr || find(token.content) != nullptr) {
    node.refuse("'{}' or its id {} occurs twice", token.content, token.id);
  }
  NormalizedText spelling{.text = token.content};
  if (token.normalized && normalizer != nullptr) normalizer->apply(spelling, scratch);
  token.spelling = std::move(spelling.text);
  (token.normalized ? in_normalized_text_ : in_text_).add(token);
  limit_ = std::max(limit_, token.id + 1);
  if (!known) ++beyond_vocab_;
  ids_.emplace(token.content, token.id);
  const std::int32_t id = token.id;
  by_id_.emplace(id, std::move(token));
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? nullptr : find(found->second);
}

}  // namespace maxtext
