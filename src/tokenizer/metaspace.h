// Settings of Metaspace, which pre-tokenizer and decoder share: spaces are written as a character of their own, mostly
// U+2581.
#pragma once

#include <string>

#include "tokenizer/json_node.h"

namespace maxtext {

/// Whether a text gets a space in front: every piece, the first piece only, or none.
enum class PrependScheme { always, first, never };

struct Metaspace {
  std::string replacement = "\xE2\x96\x81";
  PrependScheme prepend = PrependScheme::always;
};

/// Reads `replacement` and `prepend_scheme`, or `add_prefix_space` of older files. Throws ConfigError when the two
/// contradict each other.
Metaspace parse_metaspace(const JsonNode& node);

}  // namespace maxtext
