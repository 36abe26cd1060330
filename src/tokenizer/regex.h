// Regular expressions over UTF-8 text, compiled to machine code by PCRE2 (pcre.org). Properties of characters are those
// of the library's Unicode (14 with PCRE2 10.42 of Debian 12): of all characters, only those that came with Unicode 15
// and 16, such as Kawi and the Egyptian Hieroglyphs Extended-A, are cut otherwise than by tokenizers 0.23 (Unicode 16).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace maxtext {

/// Half-open range of bytes.
struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What a match writes to; one per thread, for any number of expressions. Costs nothing until the first match.
class RegexScratch {
 public:
  RegexScratch() = default;
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  void prepare();

  pcre2_real_match_data_8* match_data_ = nullptr;
  pcre2_real_match_context_8* context_ = nullptr;
  pcre2_real_jit_stack_8* stack_ = nullptr;
};

class Regex {
 public:
  /// Compiles a pattern in PCRE2's syntax: UTF-8, Unicode properties, ^ and $ at line ends, newline is LF. Throws
  /// ConfigError with PCRE2's message.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  static bool is_valid(const std::string& pattern);

  /// The first match in valid `text` that starts at `from` or later; what stands before `from` is seen by lookbehinds.
  /// Costs about 0.1 us for a pattern that splits words. Throws Error when the match needs more memory than there is.
  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  int interpret(std::string_view text, std::size_t from, RegexScratch& scratch) const;

  pcre2_real_code_8* code_;
  bool compiled_ = false;
};

}  // namespace maxtext
