#include "tokenizer/metaspace.h"

#include "tokenizer/utf8.h"

namespace maxtext {

Metaspace parse_metaspace(const JsonNode& node) {
  Metaspace metaspace;
  metaspace.replacement = node.text_or("replacement", metaspace.replacement);
  if (metaspace.replacement.empty() || metaspace.replacement.size() != utf8_length(metaspace.replacement.front())) {
    node.refuse("replacement: expected one character, found '{}'", metaspace.replacement);
  }
  const bool adds_space = node.boolean_or("add_prefix_space", true);
  const std::string scheme = node.text_or("prepend_scheme", adds_space ? "always" : "never");
  if (scheme == "always") {
    metaspace.prepend = PrependScheme::always;
  } else if (scheme == "first") {
    metaspace.prepend = PrependScheme::first;
  } else if (scheme == "never") {
    metaspace.prepend = PrependScheme::never;
  } else {
    node.refuse("prepend_scheme: expected always, first or never, found '{}'", scheme);
  }
  if (!adds_space && metaspace.prepend != PrependScheme::never) {
    node.refuse("add_prefix_space=false contradicts prepend_scheme={}", scheme);
  }
  return metaspace;
}

}  // namespace maxtext
