// The `pre_tokenizer` of tokenizer.json: cuts a normalized text into the pieces that the model encodes one by one.
// Semantics are those of Hugging Face's tokenizers library.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/json_node.h"
#include "tokenizer/regex.h"

namespace maxtext {

struct TextPiece {
  std::string_view text;
  /// It starts where the whole text that is being encoded starts.
  bool at_start = true;
};

/// Takes pieces one after the other; each is valid during the call only.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const TextPiece& piece) = 0;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  /// Gives the pieces of a piece to the sink, in order. Text is handed through the stages of a Sequence piece by piece,
  /// so no stage makes a list of all of them.
  virtual void split(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const = 0;
};

struct PreTokenization {
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  /// The pieces are bytes still to be written in the byte alphabet (byte_alphabet.h), which the model does on its own
  /// terms: mapping, storing and hashing the characters for every word would take twice the memory and time.
  bool leaves_bytes = false;
};

/// Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace and WhitespaceSplit; throws ConfigError
/// naming file and component for any other and for wrong settings. With `may_leave_bytes`, a ByteLevel that comes last
/// leaves out the mapping.
PreTokenization parse_pre_tokenizer(const JsonNode& node, bool may_leave_bytes);

}  // namespace maxtext
