// Regular expressions over UTF-8 text, compiled to machine code by PCRE2 (pcre.org).
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

/// What a match writes to; one per thread, for any number of expressions.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  pcre2_real_match_data_8* match_data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
};

class Regex {
 public:
  /// Compiles a pattern in PCRE2's syntax: UTF-8, Unicode properties, ^ and $ at line ends, newline is LF. Throws
  /// ConfigError with PCRE2's message.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&& other) noexcept = delete;

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
