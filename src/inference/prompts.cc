#include "inference/prompts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

using nlohmann::json;

std::string read_all(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (std::filesystem::is_directory(path)) fail_config("prompt_file={}: expected a file, found a directory", path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail_config("prompt_file={}: there is no such file, or it cannot be read", path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string prompt_of_line(std::string_view line, const std::string& origin) {
  const json value = parse_json(line, origin);
  if (value.is_string()) return value.get<std::string>();
  const auto prompt = value.is_object() ? value.find("prompt") : value.end();
  if (!value.is_object() || prompt == value.end() || !prompt->is_string()) {
    fail_config("{}: expected a string, or an object with the text field `prompt`", origin);
  }
  return prompt->get<std::string>();
}

void check_utf8(const std::string& text, const std::string& name) {
  const std::optional<std::int64_t> offset = first_invalid_utf8(text);
  if (offset) fail_config("{}: byte {} is not UTF-8", name, *offset);
}

std::vector<Prompt> jsonl_prompts(std::string_view text, const std::string& name) {
  std::vector<Prompt> prompts;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string origin = fmt::format("{}: line {}", name, number);
    prompts.push_back({prompt_of_line(line, origin), origin});
  }
  if (prompts.empty()) fail_config("{}: there is no prompt in it", name);
  return prompts;
}

std::vector<Prompt> prompts_of_file(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  std::string text = read_all(path);
  check_utf8(text, name);
  if (path.ends_with(".jsonl")) return jsonl_prompts(text, name);
  if (text.ends_with('\n')) text.pop_back();
  return {{std::move(text), name}};
}

/// Of two keys for the same thing the later source's counts, as of two values of one key.
bool reads_prompt_file(const Config& config) {
  if (config.text("prompt_file").empty()) return false;
  if (config.text("prompt").empty()) return true;
  const SourceKind of_prompt = config.source("prompt").kind;
  const SourceKind of_file = config.source("prompt_file").kind;
  if (of_prompt == of_file) {
    fail_config("prompt and prompt_file={} are both given ({}): expected one of them", config.text("prompt_file"),
                config.source("prompt_file").where);
  }
  return of_file > of_prompt;
}

}  // namespace

std::vector<Prompt> read_prompts(const Config& config) {
  const std::string& prompt = config.text("prompt");
  const bool from_file = reads_prompt_file(config);
  if (!from_file) check_utf8(prompt, "prompt");
  std::vector<Prompt> prompts =
      from_file ? prompts_of_file(config.text("prompt_file")) : std::vector<Prompt>{{prompt, "prompt"}};
  for (const Prompt& each : prompts) {
    if (each.text.empty()) fail_config("{}: the prompt is empty", each.origin);
  }
  return prompts;
}

}  // namespace maxtext
