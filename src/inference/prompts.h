// Where prompts come from.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace maxtext {

struct Prompt {
  std::string text;
  /// What errors call it: "prompt", "FILE", "FILE: line 3".
  std::string origin;
};

/// The prompts of `prompt_file`: a .jsonl has one per line, a string or an object with the field `prompt`; any other
/// file, or "-" for standard input, is one prompt as a whole, less a newline at its end. With an empty `prompt_file`
/// `prompt` is the only one. Throws ConfigError (file, line or byte) for a file that cannot be read or has no prompt,
/// an empty prompt and text that is not UTF-8. Where both keys name prompts the later source's count; both from the
/// same source are a ConfigError.
std::vector<Prompt> read_prompts(const Config& config);

}  // namespace maxtext
