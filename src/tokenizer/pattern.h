// What normalizers, pre-tokenizers and decoders search for in a text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/json_node.h"
#include "tokenizer/regex.h"

namespace maxtext {

class Pattern {
 public:
  virtual ~Pattern() = default;

  /// The first match that starts at `from` or later.
  virtual std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& scratch) const = 0;
};

std::unique_ptr<Pattern> literal_pattern(std::string text);

/// A regular expression in Oniguruma's syntax; throws ConfigError when it is wrong or cannot be translated.
std::unique_ptr<Pattern> regex_pattern(std::string_view pattern);

/// Every single character for which `holds` is true.
std::unique_ptr<Pattern> character_pattern(bool (*holds)(char32_t));

/// {"String": "..."} or {"Regex": "..."}.
std::unique_ptr<Pattern> parse_pattern(const JsonNode& node);

/// The matches of a pattern one after the other. They do not overlap, and an empty one never lies at the end of the one
/// before it.
class Matches {
 public:
  Matches(const Pattern& pattern, std::string_view text, RegexScratch& scratch)
      : pattern_(pattern), text_(text), scratch_(scratch) {}

  std::optional<Match> next();

 private:
  const Pattern& pattern_;
  std::string_view text_;
  RegexScratch& scratch_;
  std::size_t from_ = 0;
  std::size_t last_end_ = std::string_view::npos;
};

/// `text` with `content` in place of every match.
std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content,
                            RegexScratch& scratch);

}  // namespace maxtext
