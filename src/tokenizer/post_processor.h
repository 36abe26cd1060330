// The `post_processor` of tokenizer.json: the special tokens around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/json_node.h"

namespace maxtext {

/// Ids in front of those of a text, and after them.
struct SpecialAffixes {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
};

/// Reads TemplateProcessing (its form for a single text), ByteLevel (which changes offsets only, and those are not
/// kept) and Sequence of them. Throws ConfigError naming file and component for any other.
SpecialAffixes parse_post_processor(const JsonNode& node);

}  // namespace maxtext
