#include "tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/json_text.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

std::string read_whole(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    fail_config("{}: expected a file, found a folder", path.string());
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(std::filesystem::file_size(path), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size())))
    fail_config("{}: cannot be read", path.string());
  return text;
}

std::unique_ptr<Normalizer> read_normalizer(const JsonNode& root) {
  const auto node = root.find("normalizer");
  return node ? parse_normalizer(*node) : nullptr;
}

PreTokenization read_pre_tokenizer(const JsonNode& root, bool may_leave_bytes) {
  const auto node = root.find("pre_tokenizer");
  return node ? parse_pre_tokenizer(*node, may_leave_bytes) : PreTokenization{};
}

void check_affixes(const JsonNode& root, const SpecialAffixes& affixes, const Tokenizer& tokenizer) {
  for (const auto* ids : {&affixes.prefix, &affixes.suffix}) {
    for (const std::int32_t id : *ids) {
      if (!tokenizer.has_token(id)) root.at("post_processor").refuse("no token has the id {}", id);
    }
  }
}

/// Makes `ids` hold `id` or not, as a setting says.
void set_member(std::vector<std::int32_t>& ids, std::optional<std::int32_t> id, const JsonNode& config,
                std::string_view key, bool in_front) {
  if (!config.find(key) || !id) return;
  const auto found = std::find(ids.begin(), ids.end(), *id);
  const bool wanted = config.boolean_or(key, false);
  if (!wanted && found != ids.end()) ids.erase(found);
  if (wanted && found == ids.end()) ids.insert(in_front ? ids.begin() : ids.end(), *id);
}

}  // namespace

struct HuggingFaceTokenizer::Scratch {
  RegexScratch regex;
  BpeScratch bpe;
};

/// A scratch for the time of a call.
class HuggingFaceTokenizer::ScratchLoan {
 public:
  explicit ScratchLoan(const HuggingFaceTokenizer& owner) : owner_(owner) {
    {
      const std::lock_guard lock(owner_.mutex_);
      if (!owner_.idle_.empty()) {
        scratch_ = std::move(owner_.idle_.back());
        owner_.idle_.pop_back();
      }
    }
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
  }
  ~ScratchLoan() {
    const std::lock_guard lock(owner_.mutex_);
    owner_.idle_.push_back(std::move(scratch_));
  }
  ScratchLoan(const ScratchLoan&) = delete;
  ScratchLoan& operator=(const ScratchLoan&) = delete;

  Scratch& operator*() const { return *scratch_; }

 private:
  const HuggingFaceTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

class HuggingFaceTokenizer::ModelSink final : public PieceSink {
 public:
  ModelSink(const BpeModel& model, BpeScratch& scratch, std::vector<std::int32_t>& ids)
      : model_(model), scratch_(scratch), ids_(ids) {}
  void take(const TextPiece& piece) override { model_.encode(piece.text, scratch_, ids_); }

 private:
  const BpeModel& model_;
  BpeScratch& scratch_;
  std::vector<std::int32_t>& ids_;
};

HuggingFaceTokenizer::Files HuggingFaceTokenizer::read_files(const std::filesystem::path& path) {
  if (path.empty()) fail_config("expected a tokenizer.json or its directory, got nothing");
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file)) fail_config("{}: no such file", file.string());
  const std::filesystem::path config = file.parent_path() / "tokenizer_config.json";
  return {read_whole(file), std::filesystem::exists(config) ? read_whole(config) : "", file.string()};
}

HuggingFaceTokenizer::HuggingFaceTokenizer(const std::filesystem::path& path)
    : HuggingFaceTokenizer(read_files(path)) {}

HuggingFaceTokenizer::HuggingFaceTokenizer(const Files& files)
    : HuggingFaceTokenizer(files.text, files.config, files.name) {}

HuggingFaceTokenizer::HuggingFaceTokenizer(std::string_view text, std::string_view config, const std::string& name) {
  read_components(parse_tokenizer_file(text, name));
  const auto folder = std::filesystem::path(name).parent_path();
  if (!config.empty()) read_config(config, (folder / "tokenizer_config.json").string());
  // Of the second file, only ids that become part of tokenised text count.
  fingerprint_ =
      fmt::format("huggingface-{}-{}-{}", hash_text(content_hash(text)), bos_id_.value_or(-1), eos_id_.value_or(-1));
}

HuggingFaceTokenizer::~HuggingFaceTokenizer() = default;

void HuggingFaceTokenizer::read_components(TokenizerFile file) {
  const nlohmann::json components = std::move(file.components);
  const JsonNode root(components, file.name);
  const JsonNode model = root.at("model");
  if (file.vocab.size() == 0) {
    parse_bpe_options(model);  // says so when the model is of another kind
    model.refuse("'vocab' is missing or empty");
  }
  BpeOptions options = parse_bpe_options(model);
  normalizer_ = read_normalizer(root);
  PreTokenization cuts = read_pre_tokenizer(root, can_take_bytes(file.vocab, options));
  pre_tokenizer_ = std::move(cuts.pre_tokenizer);
  model_ = std::make_unique<BpeModel>(std::move(file), std::move(options), cuts.leaves_bytes);
  added_ = std::make_unique<AddedTokens>(root.find("added_tokens"), model_->vocab(), normalizer_.get());
  vocab_size_ = std::max(model_->vocab().limit(), added_->limit());
  unk_id_ = model_->unk_id();
  if (const auto node = root.find("post_processor")) affixes_ = parse_post_processor(*node);
  check_affixes(root, affixes_, *this);
  if (const auto node = root.find("decoder")) decoder_ = parse_token_decoder(*node);
}

void HuggingFaceTokenizer::read_config(std::string_view text, const std::string& name) {
  const nlohmann::json value = parse_json(text, name);
  const JsonNode config(value, name);
  bos_id_ = named_token(config, "bos_token", true);
  eos_id_ = named_token(config, "eos_token", true);
  pad_id_ = named_token(config, "pad_token", false);
  if (const auto unk = named_token(config, "unk_token", false)) unk_id_ = unk;
  set_member(affixes_.prefix, bos_id_, config, "add_bos_token", true);
  set_member(affixes_.suffix, eos_id_, config, "add_eos_token", false);
}

/// The token that `key` spells, as a text or as the "content" of an object. transformers adds tokens that the
/// vocabulary lacks; a model has no row for such an id, which padding and the unknown token can do without.
std::optional<std::int32_t> HuggingFaceTokenizer::named_token(const JsonNode& config, std::string_view key,
                                                              bool required) const {
  const auto node = config.find(key);
  if (!node) return std::nullopt;
  const std::string spelling = node->is_object() ? node->text("content") : node->text();
  const auto id = token_to_id(spelling);
  if (!id && required) node->refuse("'{}' is not a token of tokenizer.json", spelling);
  return id;
}

std::vector<std::int32_t> HuggingFaceTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids = encode_text(text, options.parse_special_tokens, false);
  if (options.add_special_tokens) {
    ids.insert(ids.begin(), affixes_.prefix.begin(), affixes_.prefix.end());
    ids.insert(ids.end(), affixes_.suffix.begin(), affixes_.suffix.end());
  }
  return ids;
}

std::vector<std::int32_t> HuggingFaceTokenizer::encode_continuation(std::string_view text) const {
  return encode_text(text, true, true);
}

std::vector<std::int32_t> HuggingFaceTokenizer::encode_text(std::string_view text, bool parse_special,
                                                            bool continues) const {
  if (const auto offset = first_invalid_utf8(text)) fail("text is not UTF-8 at byte {}", *offset);
  const ScratchLoan loan(*this);
  Scratch& scratch = *loan;
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  added_->in_text().split(text, parse_special, scratch.regex, [&](const TextSegment& segment) {
    if (segment.id >= 0) return ids.push_back(segment.id);
    const bool first = segment.text.data() == text.data();
    NormalizedText normalized{std::string(segment.text), first && !continues, first && continues};
    if (normalizer_) normalizer_->apply(normalized, scratch.regex);
    encode_normalized(normalized, parse_special, scratch, ids);
  });
  return ids;
}

void HuggingFaceTokenizer::encode_normalized(const NormalizedText& text, bool parse_special, Scratch& scratch,
                                             std::vector<std::int32_t>& ids) const {
  ModelSink sink(*model_, scratch.bpe, ids);
  added_->in_normalized_text().split(text.text, parse_special, scratch.regex, [&](const TextSegment& segment) {
    if (segment.id >= 0) return ids.push_back(segment.id);
    const TextPiece piece{segment.text, text.at_start && segment.text.data() == text.text.data()};
    if (pre_tokenizer_) return pre_tokenizer_->split(piece, scratch.regex, sink);
    sink.take(piece);
  });
}

std::string HuggingFaceTokenizer::decode(std::span<const std::int32_t> ids, SpecialTokens special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!has_token(ids[i])) {
      fail("token id {} at index {} is not in the vocabulary (ids below {})", ids[i], i, vocab_size());
    }
    if (special == SpecialTokens::keep || !is_special(ids[i])) tokens.push_back(id_to_token(ids[i]));
  }
  const std::string_view separator = decoder_ ? "" : " ";
  if (decoder_) decoder_->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (&token != &tokens.front()) text += separator;
    text += token;
  }
  return text;
}

std::string HuggingFaceTokenizer::id_to_token(std::int32_t id) const {
  if (const AddedToken* token = added_->find(id)) return token->spelling;
  if (!model_->vocab().has(id)) fail("token id {} is not in the vocabulary (ids below {})", id, vocab_size());
  return std::string(model_->vocab().token(id));
}

std::optional<std::int32_t> HuggingFaceTokenizer::token_to_id(std::string_view token) const {
  if (const AddedToken* added = added_->find(token)) return added->id;
  return model_->vocab().find(token);
}

bool HuggingFaceTokenizer::has_token(std::int32_t id) const {
  return model_->vocab().has(id) || added_->find(id) != nullptr;
}

bool HuggingFaceTokenizer::is_special(std::int32_t id) const {
  const AddedToken* token = added_->find(id);
  return token != nullptr && token->special;
}

}  // namespace maxtext
