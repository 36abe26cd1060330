#include "tokenizer/token_decoder.h"

#include <charconv>
#include <optional>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/pattern.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

using Tokens = std::vector<std::string>;

class DecoderSequence final : public TokenDecoder {
 public:
  explicit DecoderSequence(const JsonNode& node) {
    for (const JsonNode& part : node.at("decoders").list()) parts_.push_back(parse_token_decoder(part));
  }
  void apply(Tokens& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> parts_;
};

/// Bytes of all tokens together; a token with a character outside the alphabet, as added tokens may have, is itself.
class ByteLevelDecoder final : public TokenDecoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_byte_characters(token).value_or(token);
    tokens.assign(1, replace_invalid_utf8(bytes));
  }
};

/// The byte that a token "<0xNN>" stands for.
std::optional<char> fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

/// Runs of "<0xNN>" become the text of their bytes, or U+FFFD for each byte when the run is not UTF-8.
class ByteFallbackDecoder final : public TokenDecoder {
 public:
  void apply(Tokens& tokens) const override {
    Tokens result;
    std::string run;
    for (std::string& token : tokens) {
      if (const auto byte = fallback_byte(token)) {
        run += *byte;
      } else {
        flush(run, result);
        result.push_back(std::move(token));
      }
    }
    flush(run, result);
    tokens = std::move(result);
  }

 private:
  static void flush(std::string& run, Tokens& result) {
    if (run.empty()) return;
    if (first_invalid_utf8(run)) {
      result.insert(result.end(), run.size(), "\xEF\xBF\xBD");
    } else {
      result.push_back(run);
    }
    run.clear();
  }
};

class FuseDecoder final : public TokenDecoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens.assign(1, text);
  }
};

/// Takes up to `start` and `stop` times a character off the ends of every token.
class StripDecoder final : public TokenDecoder {
 public:
  explicit StripDecoder(const JsonNode& node)
      : content_(node.text("content")), start_(count(node, "start")), stop_(count(node, "stop")) {
    if (content_.empty() || content_.size() != utf8_length(content_.front())) {
      node.refuse("content: expected one character, found '{}'", content_);
    }
  }

  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (std::int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  static std::int64_t count(const JsonNode& node, std::string_view key) {
    const std::int64_t value = node.integer_or(key, 0);
    if (value < 0) node.refuse("{}: expected 0 or more, found {}", key, value);
    return value;
  }

  std::string content_;
  std::int64_t start_;
  std::int64_t stop_;
};

class ReplaceDecoder final : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const JsonNode& node)
      : pattern_(parse_pattern(node.at("pattern"))), content_(node.text("content")) {}

  void apply(Tokens& tokens) const override {
    RegexScratch scratch;
    for (std::string& token : tokens) token = replace_matches(*pattern_, token, content_, scratch);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

/// The replacement character becomes a space, and nothing in the first token of a text that got one in front.
class MetaspaceDecoder final : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const JsonNode& node)
      : metaspace_(parse_metaspace(node)), space_(literal_pattern(metaspace_.replacement)) {}

  void apply(Tokens& tokens) const override {
    RegexScratch scratch;
    bool drops = metaspace_.prepend != PrependScheme::never;
    for (std::string& token : tokens) {
      token = replace_matches(*space_, token, std::exchange(drops, false) ? "" : " ", scratch);
    }
  }

 private:
  Metaspace metaspace_;
  std::unique_ptr<Pattern> space_;
};

/// The suffix of the ends of words becomes a space, and nothing at the end of the text.
class BpeDecoder final : public TokenDecoder {
 public:
  explicit BpeDecoder(const JsonNode& node) : suffix_(node.text_or("suffix", "</w>")) {
    if (suffix_.empty()) node.refuse("suffix: expected a text, found an empty one");
    pattern_ = literal_pattern(suffix_);
  }

  void apply(Tokens& tokens) const override {
    RegexScratch scratch;
    for (std::string& token : tokens) {
      token = replace_matches(*pattern_, token, &token == &tokens.back() ? "" : " ", scratch);
    }
  }

 private:
  std::string suffix_;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace

std::unique_ptr<TokenDecoder> parse_token_decoder(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return std::make_unique<DecoderSequence>(node);
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") return std::make_unique<StripDecoder>(node);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(node);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(node);
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(node);
  node.refuse_type({"Sequence", "ByteLevel", "ByteFallback", "Fuse", "Strip", "Replace", "Metaspace", "BPEDecoder"});
}

}  // namespace maxtext
