#include "tokenizer/normalizer.h"

#include <utility>
#include <vector>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const JsonNode& node) {
    for (const JsonNode& part : node.at("normalizers").list()) parts_.push_back(parse_normalizer(part));
  }
  void apply(NormalizedText& text, RegexScratch& scratch) const override {
    for (const auto& part : parts_) part->apply(text, scratch);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  void apply(NormalizedText& text, RegexScratch& /*scratch*/) const override {
    text.text = normalize(text.text, form_);
  }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void apply(NormalizedText& text, RegexScratch& /*scratch*/) const override { text.text = lower_case(text.text); }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void apply(NormalizedText& text, RegexScratch& /*scratch*/) const override {
    text.text = to_byte_characters(text.text);
  }
};

class StripNormalizer final : public Normalizer {
 public:
  explicit StripNormalizer(const JsonNode& node)
      : left_(node.boolean_or("strip_left", true)), right_(node.boolean_or("strip_right", true)) {}

  void apply(NormalizedText& text, RegexScratch& /*scratch*/) const override {
    std::size_t begin = 0;
    std::size_t end = text.text.size();
    while (left_ && begin < end && is_white_space(utf8_at(text.text, begin))) begin += utf8_length(text.text[begin]);
    while (right_ && begin < end) {
      const std::size_t last = utf8_boundary(text.text, end - 1);
      if (!is_white_space(utf8_at(text.text, last))) break;
      end = last;
    }
    text.text = text.text.substr(begin, end - begin);
    if (begin > 0) text.at_start = false;
  }

 private:
  bool left_;
  bool right_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(const JsonNode& node) : prefix_(node.text("prepend")) {}
  void apply(NormalizedText& text, RegexScratch& /*scratch*/) const override {
    if (!text.text.empty() && !text.continues) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const JsonNode& node)
      : pattern_(parse_pattern(node.at("pattern"))), content_(node.text("content")) {}

  void apply(NormalizedText& text, RegexScratch& scratch) const override {
    if (content_.empty() && text.at_start) {
      const auto first = pattern_->find(text.text, 0, scratch);
      if (first && first->begin == 0 && first->end > 0) text.at_start = false;
    }
    text.text = replace_matches(*pattern_, text.text, content_, scratch);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

}  // namespace

std::unique_ptr<Normalizer> parse_normalizer(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(node);
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Strip") return std::make_unique<StripNormalizer>(node);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(node);
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(node);
  node.refuse_type({"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "ByteLevel", "Strip", "Prepend", "Replace"});
}

}  // namespace maxtext
