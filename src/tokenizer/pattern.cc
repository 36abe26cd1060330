#include "tokenizer/pattern.h"

#include <utility>

#include "tokenizer/regex_syntax.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

class LiteralPattern final : public Pattern {
 public:
  explicit LiteralPattern(std::string text) : text_(std::move(text)) {}

  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& /*scratch*/) const override {
    const std::size_t begin = text.find(text_, from);
    if (begin == std::string_view::npos) return std::nullopt;
    return Match{begin, begin + text_.size()};
  }

 private:
  std::string text_;
};

class RegexPattern final : public Pattern {
 public:
  explicit RegexPattern(std::string_view pattern) : regex_(translate_regex(pattern)) {}

  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& scratch) const override {
    return regex_.find(text, from, scratch);
  }

 private:
  Regex regex_;
};

class CharacterPattern final : public Pattern {
 public:
  explicit CharacterPattern(bool (*holds)(char32_t)) : holds_(holds) {}

  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& /*scratch*/) const override {
    for (std::size_t i = from; i < text.size(); i += utf8_length(text[i])) {
      if (holds_(utf8_at(text, i))) return Match{i, i + utf8_length(text[i])};
    }
    return std::nullopt;
  }

 private:
  bool (*holds_)(char32_t);
};

}  // namespace

std::unique_ptr<Pattern> literal_pattern(std::string text) { return std::make_unique<LiteralPattern>(std::move(text)); }

std::unique_ptr<Pattern> regex_pattern(std::string_view pattern) { return std::make_unique<RegexPattern>(pattern); }

std::unique_ptr<Pattern> character_pattern(bool (*holds)(char32_t)) {
  return std::make_unique<CharacterPattern>(holds);
}

std::unique_ptr<Pattern> parse_pattern(const JsonNode& node) {
  if (const auto literal = node.find("String")) {
    if (literal->text().empty()) literal->refuse("expected a text to search for, found an empty one");
    return literal_pattern(literal->text());
  }
  if (const auto regex = node.find("Regex")) {
    try {
      return regex_pattern(regex->text());
    } catch (const ConfigError& error) {
      regex->refuse("{}", error.what());
    }
  }
  node.refuse("expected {{\"String\": ...}} or {{\"Regex\": ...}}");
}

std::optional<Match> Matches::next() {
  while (from_ <= text_.size()) {
    const auto match = pattern_.find(text_, from_, scratch_);
    if (!match) break;
    if (match->begin == match->end && match->end == last_end_) {
      from_ += from_ < text_.size() ? utf8_length(text_[from_]) : 1;
      continue;
    }
    from_ = last_end_ = match->end;
    return match;
  }
  from_ = text_.size() + 1;
  return std::nullopt;
}

std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content,
                            RegexScratch& scratch) {
  std::string result;
  result.reserve(text.size() + text.size() / 4);
  Matches matches(pattern, text, scratch);
  std::size_t done = 0;
  while (const auto match = matches.next()) {
    result += text.substr(done, match->begin - done);
    result += content;
    done = match->end;
  }
  return result += text.substr(done);
}

}  // namespace maxtext
