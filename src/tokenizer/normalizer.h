// The `normalizer` of tokenizer.json: rewrites a text before it is split. Semantics are those of Hugging Face's
// tokenizers library.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/json_node.h"
#include "tokenizer/regex.h"

namespace maxtext {

/// A text on its way through the normalizers.
struct NormalizedText {
  std::string text;
  /// It starts where the whole text that is being encoded starts, and nothing has been cut off its start.
  bool at_start = true;
  /// It goes on from a text that was encoded before; what marks the start of a text must not be added.
  bool continues = false;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text, RegexScratch& scratch) const = 0;
};

/// Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace and ByteLevel; throws ConfigError naming file and
/// component for any other and for wrong settings.
std::unique_ptr<Normalizer> parse_normalizer(const JsonNode& node);

}  // namespace maxtext
