#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "inference/logit_check.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void check_finite(const GoldenSequence& sequence, const std::string& where) {
  const auto wrong = std::ranges::find_if(sequence.logits, [](float logit) { return !std::isfinite(logit); });
  if (wrong == sequence.logits.end()) return;
  const std::int64_t index = wrong - sequence.logits.begin();
  fail_config("{}: the golden logit of token {} at position {} is not finite", where, index % sequence.vocab_size,
              index / sequence.vocab_size);
}

GoldenSequence parse_line(const json& line, const std::string& where) {
  GoldenSequence sequence;
  try {
    sequence.prompt = line.value("prompt", "");
    sequence.ids = line.at("tokens").get<std::vector<std::int32_t>>();
    for (const json& row : line.at("logits")) {
      const auto values = row.get<std::vector<float>>();
      if (sequence.vocab_size == 0) sequence.vocab_size = static_cast<std::int64_t>(values.size());
      if (static_cast<std::int64_t>(values.size()) != sequence.vocab_size) {
        fail_config("{}: rows of logits have {} and {} values", where, sequence.vocab_size, values.size());
      }
      sequence.logits.insert(sequence.logits.end(), values.begin(), values.end());
    }
  } catch (const json::exception&) {
    fail_config("{}: expected {{\"prompt\": text, \"tokens\": [T], \"logits\": [T][vocab]}}, numbers in both lists",
                where);
  }
  check_finite(sequence, where);
  return sequence;
}

std::vector<GoldenSequence> read_jsonl(const fs::path& path) {
  std::ifstream stream(path);
  if (!stream) fail_config("{}: cannot be read", path.string());
  std::vector<GoldenSequence> sequences;
  std::string text;
  for (int number = 1; std::getline(stream, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}: line {}", path.string(), number);
    const json line = parse_json(text, where);
    if (!line.is_object()) fail_config("{}: expected a JSON object", where);
    sequences.push_back(parse_line(line, where));
  }
  return sequences;
}

SafetensorsFile open_golden(const fs::path& path) {
  try {
    return SafetensorsFile(path);
  } catch (const Error& error) {
    fail_config("golden logits {}", error.what());  // which names the file
  }
}

std::vector<GoldenSequence> read_tensors(const fs::path& path) {
  constexpr std::string_view kIds = ".input_ids";
  const SafetensorsFile file = open_golden(path);
  std::vector<GoldenSequence> sequences;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.ends_with(kIds)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - kIds.size());
    const std::string logits = name + ".logits";
    if (!file.contains(logits)) fail_config("{}: there is no tensor '{}'", path.string(), logits);
    GoldenSequence sequence;
    sequence.prompt = name;
    const std::vector<std::int64_t> ids = read_as_int64(file, entry.name);
    sequence.ids.assign(ids.begin(), ids.end());
    const TensorSpec& spec = file.at(logits).spec;
    if (spec.shape.size() == 2) sequence.vocab_size = spec.shape[1];
    sequence.logits = read_as_float(file, logits);
    if (sequence.vocab_size > 0) check_finite(sequence, fmt::format("{}: '{}'", path.string(), name));
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

void check(const GoldenSequence& sequence, const fs::path& path) {
  const auto expected = static_cast<std::int64_t>(sequence.ids.size()) * sequence.vocab_size;
  if (expected == 0 || expected != static_cast<std::int64_t>(sequence.logits.size())) {
    fail_config("{}: '{}': {} tokens and {} logits do not fit together; expected [tokens, vocab]", path.string(),
                sequence.prompt, sequence.ids.size(), sequence.logits.size());
  }
}

}  // namespace

std::vector<GoldenSequence> read_golden_logits(const fs::path& path) {
  std::vector<GoldenSequence> sequences;
  if (!fs::exists(path)) fail_config("golden logits '{}': there is no such file or folder", path.string());
  if (fs::is_directory(path)) {
    sequences = read_tensors(path / "golden.safetensors");
  } else if (path.extension() == ".safetensors") {
    sequences = read_tensors(path);
  } else {
    sequences = read_jsonl(path);
  }
  if (sequences.empty()) fail_config("{}: there are no golden logits in it", path.string());
  for (const GoldenSequence& sequence : sequences) check(sequence, path);
  return sequences;
}

}  // namespace maxtext
