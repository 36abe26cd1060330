// Text of tokens that come one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace maxtext {

/// Gives out text as soon as it is certain: a character whose bytes are spread over tokens is held back until it is
/// whole. Everything that `push` and the final `flush` gave is the text of all ids. The method is that of DecodeStream
/// of Hugging Face's tokenizers, and the pieces are the same: a window of the last tokens is decoded with and without
/// the new one, so that what a decoder does at the start of a text happens there only. Costs the decoding of a few
/// tokens per call.
class StreamDecoder {
 public:
  /// `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, SpecialTokens special = SpecialTokens::skip)
      : tokenizer_(tokenizer), special_(special) {}

  /// The stream continues the text of `ids` and does not repeat it: what a decoder does at the start of a text, such as
  /// dropping a space, does not happen to the tokens that follow. To be called before the first `push`.
  void begin_after(std::span<const std::int32_t> ids);

  /// The text that can be given out after one more token, or nothing. An id that no token has gives nothing: models
  /// have more rows than there are tokens. Text is valid UTF-8 always; bytes that are none become U+FFFD.
  std::string push(std::int32_t id);

  /// At the end: what was held back, with U+FFFD for what never became a character. A new stream begins.
  std::string flush();

 private:
  bool gives_text(std::int32_t id) const;
  std::string decode(std::size_t begin) const;
  std::string rest() const;
  void shorten_window();

  const Tokenizer& tokenizer_;
  SpecialTokens special_;
  std::vector<std::int32_t> ids_;  // the window
  std::string prefix_;             // text of its first prefix_ids_ tokens, which was given out
  std::size_t prefix_ids_ = 0;
};

}  // namespace maxtext
