// Ending a generated text at one of a set of strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

/// Looks for stop strings in a text that arrives in pieces, and lets pass what cannot be part of one. What passes does
/// not depend on how the text is cut into pieces: the text ends before the stop string that is complete first (the one
/// that starts first where several end at the same place).
class StopStrings {
 public:
  /// Throws ConfigError for an empty string.
  explicit StopStrings(std::vector<std::string> strings);

  /// The text that can be given out after one more piece: all of it but the longest end that begins a stop string.
  /// Nothing any more after a stop string was found.
  std::string push(std::string_view piece);

  /// At the end of the text: what was held back.
  std::string flush();

  bool stopped() const { return found_ != nullptr; }

  /// The string that ended the text; stopped() must be true.
  const std::string& found() const { return *found_; }

 private:
  std::size_t ambiguous_tail() const;

  std::vector<std::string> strings_;
  std::string held_;
  const std::string* found_ = nullptr;
};

}  // namespace maxtext
