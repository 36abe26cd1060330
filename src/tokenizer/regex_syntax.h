// Regular expressions of tokenizer.json are written for Oniguruma with Ruby's syntax; PCRE2 runs them here. The two
// read some spellings differently, and this translates those.
#pragma once

#include <string>
#include <string_view>

namespace maxtext {

/// The PCRE2 pattern (to be compiled with UTF, UCP and MULTILINE, newline LF) that matches what Oniguruma matches for
/// `pattern`:
///   \s \w \h \b \v, [:space:] and such   by Oniguruma's Unicode properties (PCRE2 counts U+180E as space, for one)
///   (?m)                                 . matches newlines too
///   x{2,3}+                              one or more times (x{2,3}), not a possessive interval
///   \p{Han}                              the script itself, without the script extensions
///   \uHHHH                               \x{HHHH}
///   a(?i)b|c                             a(?i:b|c)
/// Throws ConfigError, saying what and where, for what has no translation: set operations and nested sets ([a&&[^b]]),
/// subexpression calls, absent operators, conditionals, (?x).
std::string translate_regex(std::string_view pattern);

}  // namespace maxtext
