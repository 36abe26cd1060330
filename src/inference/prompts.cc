#include "inference/prompts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
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

std::string prompt_of_line(std::string_view line, const std::string& name, std::size_t number) {
  const json value = json::parse(line, nullptr, false);
  if (value.is_discarded()) fail_config("{}: line {}: not valid JSON", name, number);
  if (value.is_string()) return value.get<std::string>();
  const auto prompt = value.is_object() ? value.find("prompt") : value.end();
  if (!value.is_object() || prompt == value.end() || !prompt->is_string()) {
    fail_config("{}: line {}: expected a string, or an object with the text field `prompt`", name, number);
  }
  return prompt->get<std::string>();
}

void check_prompt(const std::string& prompt, const std::string& name) {
  const std::optional<std::int64_t> offset = first_invalid_utf8(prompt);
  if (offset) fail("{}: byte {} is not UTF-8", name, *offset);
}

}  // namespace

std::vector<std::string> parse_jsonl_prompts(std::string_view text, const std::string& name) {
  std::vector<std::string> prompts;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    prompts.push_back(prompt_of_line(line, name, number));
  }
  if (prompts.empty()) fail_config("{}: there is no prompt in it", name);
  return prompts;
}

std::vector<std::string> read_prompts(const std::string& prompt, const std::string& prompt_file) {
  std::vector<std::string> prompts = {prompt};
  std::string name = "prompt";
  if (!prompt_file.empty()) {
    name = prompt_file == "-" ? "standard input" : prompt_file;
    std::string text = read_all(prompt_file);
    check_prompt(text, name);
    if (prompt_file.ends_with(".jsonl")) return parse_jsonl_prompts(text, name);
    if (text.ends_with('\n')) text.pop_back();
    prompts = {std::move(text)};
  }
  check_prompt(prompts.front(), name);
  if (prompts.front().empty()) fail_config("{}: the prompt is empty", name);
  return prompts;
}

}  // namespace maxtext
