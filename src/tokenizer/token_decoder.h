// The `decoder` of tokenizer.json: makes text of the spellings of tokens. Semantics are those of Hugging Face's
// tokenizers library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/json_node.h"

namespace maxtext {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;

  /// Replaces the list of spellings; joined, the result of the last decoder is the text, and valid UTF-8.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and BPEDecoder; throws ConfigError naming file
/// and component for any other and for wrong settings.
std::unique_ptr<TokenDecoder> parse_token_decoder(const JsonNode& node);

}  // namespace maxtext
