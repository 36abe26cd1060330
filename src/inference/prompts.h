// Where prompts come from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

/// The prompts of `prompt_file`: a .jsonl has one per line, a string or an object with the field `prompt`; any other
/// file, or "-" for standard input, is one prompt as a whole, less a newline at its end. With an empty `prompt_file`
/// `prompt` is the only one. Throws ConfigError (file, line) for a file that cannot be read or has no prompt, Error
/// (file, byte) for text that is not UTF-8.
std::vector<std::string> read_prompts(const std::string& prompt, const std::string& prompt_file);

/// The prompts of a .jsonl text; `name` is what errors call it.
std::vector<std::string> parse_jsonl_prompts(std::string_view text, const std::string& name);

}  // namespace maxtext
