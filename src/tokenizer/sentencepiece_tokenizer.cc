#include "tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <fstream>
#include <iterator>

#include "base/content_hash.h"
#include "base/error.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, how the pieces write a space

std::optional<std::int32_t> known(int id) { return id < 0 ? std::nullopt : std::optional<std::int32_t>(id); }

}  // namespace

SentencepieceTokenizer::SentencepieceTokenizer(const std::filesystem::path& path)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  std::ifstream file(path, std::ios::binary);
  const std::string model((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file || model.empty()) fail_config("{}: cannot be read", path.string());
  if (!processor_->LoadFromSerializedProto(model).ok()) {
    fail_config(
        "{}: not a sentencepiece model, or damaged: expected a .model file as `maxtext train-tokenizer` writes it",
        path.string());
  }
  fingerprint_ = "sentencepiece-" + hash_text(content_hash(model));
  const auto probe = processor_->EncodeAsPieces("a");
  adds_leading_space_ = !probe.empty() && probe.front().starts_with(kSpace);
}

SentencepieceTokenizer::~SentencepieceTokenizer() = default;

std::vector<std::int32_t> SentencepieceTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  // The library would replace ill-formed bytes by U+FFFD without a word.
  if (const auto offset = first_invalid_utf8(text)) fail("text is not UTF-8 at byte {}", *offset);
  std::vector<int> ids;
  if (!processor_->Encode(text, &ids).ok()) fail("sentencepiece cannot encode a text of {} bytes", text.size());
  if (options.add_special_tokens && bos_id()) ids.insert(ids.begin(), *bos_id());
  return ids;
}

std::vector<std::int32_t> SentencepieceTokenizer::encode_continuation(std::string_view text) const {
  // The space that the model puts before every text stands for the one that the continuation starts with.
  if (adds_leading_space_ && text.starts_with(' ')) text.remove_prefix(1);
  return encode(text);
}

std::string SentencepieceTokenizer::decode(std::span<const std::int32_t> ids, SpecialTokens special) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!has_token(ids[i])) {
      fail("token id {} at index {} is outside the vocabulary of {}", ids[i], i, vocab_size());
    }
  }
  return special == SpecialTokens::keep ? decode_keeping(ids) : decode_run(ids);
}

std::string SentencepieceTokenizer::decode_run(std::span<const std::int32_t> ids) const {
  std::string text;
  if (!processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text).ok()) {
    fail("sentencepiece cannot decode {} token ids", ids.size());
  }
  return text;
}

/// Decodes the runs between special tokens. The library takes the space off the start of each; only the one at the
/// start of the text is the model's own.
std::string SentencepieceTokenizer::decode_keeping(std::span<const std::int32_t> ids) const {
  std::string text;
  for (std::size_t begin = 0; begin < ids.size();) {
    if (is_special(ids[begin])) {
      text += id_to_token(ids[begin++]);
      continue;
    }
    std::size_t end = begin;
    while (end < ids.size() && !is_special(ids[end])) ++end;
    if (begin > 0 && adds_leading_space_ && id_to_token(ids[begin]).starts_with(kSpace)) text += ' ';
    text += decode_run(ids.subspan(begin, end - begin));
    begin = end;
  }
  return text;
}

std::string SentencepieceTokenizer::id_to_token(std::int32_t id) const {
  if (!has_token(id)) fail("token id {} is outside the vocabulary of {}", id, vocab_size());
  return processor_->IdToPiece(id);
}

std::optional<std::int32_t> SentencepieceTokenizer::token_to_id(std::string_view token) const {
  const std::int32_t id = processor_->PieceToId(token);
  // The library answers with the unknown token for what it does not know.
  return has_token(id) && processor_->IdToPiece(id) == token ? std::optional(id) : std::nullopt;
}

bool SentencepieceTokenizer::is_special(std::int32_t id) const { return has_token(id) && processor_->IsControl(id); }

std::int32_t SentencepieceTokenizer::vocab_size() const { return processor_->GetPieceSize(); }
std::optional<std::int32_t> SentencepieceTokenizer::bos_id() const { return known(processor_->bos_id()); }
std::optional<std::int32_t> SentencepieceTokenizer::eos_id() const { return known(processor_->eos_id()); }
std::optional<std::int32_t> SentencepieceTokenizer::pad_id() const { return known(processor_->pad_id()); }
std::optional<std::int32_t> SentencepieceTokenizer::unk_id() const { return known(processor_->unk_id()); }

}  // namespace maxtext
