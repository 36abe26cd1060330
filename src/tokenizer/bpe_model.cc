#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

std::string character_of_byte(int byte) { return to_byte_characters(std::string(1, static_cast<char>(byte))); }

std::string fallback_of_byte(int byte) { return fmt::format("<0x{:02X}>", byte); }

bool has_affixes(const BpeOptions& options) {
  return !options.continuing_subword_prefix.empty() || !options.end_of_word_suffix.empty();
}

}  // namespace

BpeOptions parse_bpe_options(const JsonNode& node) {
  // Files of older versions have no type; their models are BPE when they have merges, which the reader took out.
  if (node.text_or("type", "BPE") != "BPE") node.refuse_type({"BPE"});
  const auto dropout = node.find("dropout");
  if (dropout && !(dropout->value().is_number() && dropout->value().get<double>() == 0)) {
    dropout->refuse("dropout makes encoding random and is not supported; expected null or 0");
  }
  BpeOptions options;
  if (node.find("unk_token")) options.unk_token = node.text("unk_token");
  options.continuing_subword_prefix = node.text_or("continuing_subword_prefix", "");
  options.end_of_word_suffix = node.text_or("end_of_word_suffix", "");
  options.fuse_unk = node.boolean_or("fuse_unk", false);
  options.byte_fallback = node.boolean_or("byte_fallback", false);
  options.ignore_merges = node.boolean_or("ignore_merges", false);
  return options;
}

bool can_take_bytes(const TokenTable& vocab, const BpeOptions& options) {
  if (has_affixes(options)) return false;
  for (int byte = 0; byte < 256; ++byte) {
    if (!vocab.find(character_of_byte(byte))) return false;
  }
  return true;
}

BpeModel::BpeModel(TokenizerFile file, BpeOptions options, bool takes_bytes)
    : vocab_(std::move(file.vocab)),
      options_(std::move(options)),
      takes_bytes_(takes_bytes),
      merges_(file.merges.size() / 2) {
  if (options_.unk_token) {
    unk_id_ = vocab_.find(*options_.unk_token);
    if (!unk_id_) fail_config("{}: model.unk_token: '{}' is not in the vocabulary", file.name, *options_.unk_token);
  }
  find_bytes();
  read_merges(file.merges, file.name);
}

void BpeModel::find_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    const auto i = static_cast<std::size_t>(byte);
    byte_ids_[i] = vocab_.find(character_of_byte(byte)).value_or(-1);
    fallback_ids_[i] = options_.byte_fallback ? vocab_.find(fallback_of_byte(byte)).value_or(-1) : -1;
  }
  complete_fallback_ = std::find(fallback_ids_.begin(), fallback_ids_.end(), -1) == fallback_ids_.end();
}

void BpeModel::read_merges(const StringList& merges, const std::string& name) {
  cuts_ = !has_affixes(options_);
  for (std::size_t i = 0; i < merges.size() / 2; ++i) {
    const std::string_view left = merges[2 * i];
    const std::string_view right = merges[2 * i + 1];
    const std::int32_t left_id = side(left, i, name);
    const std::int32_t right_id = side(right, i, name);
    // The right side loses the prefix that says "not the start of a word".
    const std::string_view prefix = options_.continuing_subword_prefix;
    if (right.size() < prefix.size()) fail_config("{}: model.merges[{}]: '{}' lacks '{}'", name, i, right, prefix);
    std::string merged(left);
    merged += right.substr(prefix.size());
    merges_.add(left_id, right_id, {static_cast<std::uint32_t>(i), side(merged, i, name)});
    if (stands_in(left_id) || stands_in(right_id)) cuts_ = false;
    if (cuts_ && !left.empty() && !right.empty()) add_neighbours(left, right);
  }
}

std::int32_t BpeModel::side(std::string_view token, std::size_t merge, const std::string& name) const {
  const auto id = vocab_.find(token);
  if (!id) fail_config("{}: model.merges[{}]: '{}' is not in the vocabulary", name, merge, token);
  return *id;
}

/// True for tokens that take the place of characters which they do not spell. Where those merge, what the characters
/// are says nothing about what can merge.
bool BpeModel::stands_in(std::int32_t id) const {
  return id == unk_id_ || std::find(fallback_ids_.begin(), fallback_ids_.end(), id) != fallback_ids_.end();
}

/// A merge happens between the last character of its left side and the first of its right side.
void BpeModel::add_neighbours(std::string_view left, std::string_view right) {
  const char32_t last = utf8_at(left, utf8_boundary(left, left.size() - 1));
  const char32_t first = utf8_at(right, 0);
  if (!takes_bytes_) return neighbours_.add(last, first);
  const auto last_byte = character_byte(last);
  const auto first_byte = character_byte(first);
  // Other characters never occur in such a word.
  if (last_byte && first_byte) neighbours_.add(*last_byte, *first_byte);
}

void BpeModel::encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  if (word.size() <= WordCache::kMaxBytes || !cuts_) return encode_part(word, true, scratch, ids);
  if (options_.ignore_merges) {
    if (const auto id = whole_word(word)) return ids.push_back(*id);
  }
  encode_in_parts(word, scratch, ids);
}

/// `whole`: the part is a word, for which ignore_merges counts.
void BpeModel::encode_part(std::string_view part, bool whole, BpeScratch& scratch,
                           std::vector<std::int32_t>& ids) const {
  const bool ignores_merges = options_.ignore_merges;
  const bool cacheable = part.size() <= WordCache::kMaxBytes && (whole || !ignores_merges);
  if (cacheable) {
    const auto known = scratch.cache.find(part);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
  }
  auto& word = scratch.word;
  word.clear();
  const auto token = whole && ignores_merges ? whole_word(part) : std::nullopt;
  if (token) {
    word.push_back(*token);
  } else {
    start_word(part, word);
    scratch.merger.merge(word, merges_);
  }
  if (cacheable) scratch.cache.put(part, word);
  ids.insert(ids.end(), word.begin(), word.end());
}

void BpeModel::encode_in_parts(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const {
  const auto length_at = [&](std::size_t i) { return takes_bytes_ ? 1 : utf8_length(word[i]); };
  std::size_t begin = 0;
  std::size_t previous = 0;
  for (std::size_t i = length_at(0); i < word.size();) {
    const std::size_t end = i + length_at(i);
    if (may_cut(word, previous, i, end)) {
      encode_part(word.substr(begin, i - begin), false, scratch, ids);
      begin = i;
    }
    previous = i;
    i = end;
  }
  encode_part(word.substr(begin), false, scratch, ids);
}

/// Whether nothing can merge between the characters at `previous` and `at`, which ends at `end`.
bool BpeModel::may_cut(std::string_view word, std::size_t previous, std::size_t at, std::size_t end) const {
  if (takes_bytes_) {
    return !neighbours_.contains(static_cast<unsigned char>(word[previous]), static_cast<unsigned char>(word[at]));
  }
  if (neighbours_.contains(utf8_at(word, previous), utf8_at(word, at))) return false;
  if (complete_fallback_) return true;
  // An unknown character may be dropped, and its neighbours then meet, or be one unknown token with the next.
  return vocab_.find(word.substr(previous, at - previous)) && vocab_.find(word.substr(at, end - at));
}

std::optional<std::int32_t> BpeModel::whole_word(std::string_view word) const {
  return takes_bytes_ ? vocab_.find(to_byte_characters(word)) : vocab_.find(word);
}

void BpeModel::start_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (!takes_bytes_) return start_characters(word, ids);
  for (const char byte : word) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
}

/// The order of what is unknown, what falls back to bytes and what is dropped is the library's.
void BpeModel::start_characters(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::string_view prefix = options_.continuing_subword_prefix;
  const std::string_view suffix = options_.end_of_word_suffix;
  bool pending_unk = false;
  std::string affixed;
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t end = i + utf8_length(word[i]);
    std::string_view text = word.substr(i, end - i);
    if (has_affixes(options_)) {
      affixed.assign(i > 0 ? prefix : std::string_view());
      affixed += text;
      if (end == word.size()) affixed += suffix;
      text = affixed;
    }
    i = end;
    if (const auto id = vocab_.find(text)) {
      if (std::exchange(pending_unk, false)) ids.push_back(*unk_id_);
      ids.push_back(*id);
    } else if (!(options_.byte_fallback && append_bytes(text, ids)) && unk_id_) {
      if (pending_unk && !options_.fuse_unk) ids.push_back(*unk_id_);
      pending_unk = true;
    }
  }
  if (pending_unk) ids.push_back(*unk_id_);
}

/// Appends the fallback tokens of all bytes; does nothing and returns false when one of them has none.
bool BpeModel::append_bytes(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  for (const char byte : text) {
    const std::int32_t id = fallback_ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      ids.resize(before);
      return false;
    }
    ids.push_back(id);
  }
  return true;
}

}  // namespace maxtext
