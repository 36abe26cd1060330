#include "inference/model_files.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/weight_check.h"
#include "config/key_error.h"
#include "config/resolve.h"
#include "inference/other_keys.h"
#include "model/hf_config.h"
#include "model/shape_differences.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

ModelShape described_shape(const json& hf_config) {
  if (!hf_config.is_object() || hf_config.empty()) {
    fail_config("there is no config.json; name the model with model_name");
  }
  return parse_hf_config(hf_config.dump(), "config.json");
}

/// Whether two matrices are the same, by some of their rows: another head is another one nearly everywhere, and all of
/// it would be much to read for a warning.
bool looks_equal(const WeightSource& weights, std::string_view a, std::string_view b) {
  constexpr std::int64_t kRows = 64;
  const TensorSpec spec = weights.spec(a);
  if (weights.spec(b).shape != spec.shape || spec.shape.size() != 2) return false;
  std::vector<float> row_of_a(static_cast<std::size_t>(spec.shape[1]));
  std::vector<float> row_of_b(row_of_a.size());
  const std::int64_t stride = std::max<std::int64_t>(1, spec.shape[0] / kRows);
  for (std::int64_t row = 0; row < spec.shape[0]; row += stride) {
    weights.read_range_as_float(a, row * spec.shape[1], row_of_a);
    weights.read_range_as_float(b, row * spec.shape[1], row_of_b);
    if (row_of_a != row_of_b) return false;
  }
  return true;
}

/// What config.json says of the head against what is stored: such files are published, and none of them is useless.
void settle_head(ModelFiles& files, const std::string& where) {
  const WeightSource& weights = *files.weights;
  if (!weights.contains(kEmbedding)) return;
  const bool stored = weights.contains(kHead);
  if (!files.shape.tie_word_embeddings && !stored) {
    files.shape.tie_word_embeddings = true;
    files.warnings.push_back(fmt::format(
        "warning: {}: there is no {}, though the model does not tie it: {} is taken for it", where, kHead, kEmbedding));
  } else if (files.shape.tie_word_embeddings && stored && !looks_equal(weights, kHead, kEmbedding)) {
    files.warnings.push_back(
        fmt::format("warning: {}: {} is not {}, though the model ties them: the embedding is used; with "
                    "tie_word_embeddings=false in config.json (logits_via_embedding=false for a named model) it would "
                    "be {}",
                    where, kHead, kEmbedding, kHead));
  }
}

/// Where weights are not those of a named model, what lies beside them says why.
void check_named_model(const Config& config, const json& hf_config, const ModelFiles& files) {
  try {
    check_weights(*files.weights, files.shape);
  } catch (const ConfigError&) {
    const bool named = config.text("model_name") != "default" && hf_config.is_object() && !hf_config.empty();
    if (!named) throw;
    for (const ShapeDifference& difference : shape_differences(described_shape(hf_config), files.shape)) {
      if (!difference.in_tensors || difference.name == "tie_word_embeddings") continue;
      fail_config("{} has {} {}, its config.json gives {}: leave model_name out, config.json says what the model is",
                  config.describe("model_name"), difference.name, difference.wanted, difference.found);
    }
    throw;
  }
}

void open_files(const Config& config, const std::string& key, ModelFiles& files) {
  const std::string& path = config.text(key);
  FoundWeights found = find_weights(path);
  verify_weights(found);
  files.weights = std::move(found.weights);
  files.directory = std::move(found.directory);
  files.warnings = std::move(found.notes);
  const json hf_config = files.weights->hf_config();
  if (config.text("model_name") == "default") {
    files.shape = described_shape(hf_config);
    refuse_other_keys(config, files.shape);
  }
  settle_head(files, fmt::format("{}={}", key, path));
  check_named_model(config, hf_config, files);
  files.stop_ids = eos_ids(hf_config, "config.json");
  const fs::path generation = fs::path(path) / "generation_config.json";
  if (fs::exists(generation)) files.stop_ids.merge(eos_ids(read_json_object(generation), "generation_config.json"));
}

/// The key that leads to the tokenizer, if any is needed.
std::string tokenizer_key(const Config& config) {
  if (!config.text("tokenizer_path").empty() || config.text("tokenizer_type") == "bytes") return "tokenizer_path";
  const fs::path model = config.text("load_parameters_path");
  if (!model.empty() && (fs::exists(model / "tokenizer.json") || fs::exists(model / "tokenizer.model"))) {
    return "load_parameters_path";
  }
  if (model.empty()) {
    fail_config(
        "load_parameters_path and tokenizer_path are empty: name a model's directory with load_parameters_path, or "
        "for random weights a tokenizer with tokenizer_path");
  }
  fail_config(
      "tokenizer_path is empty, and {} has no tokenizer.json or tokenizer.model: name a sentencepiece model, or a "
      "tokenizer.json or its directory",
      model.string());
}

}  // namespace

std::set<std::int32_t> eos_ids(const json& config, const std::string& name) {
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (!config.is_object() || found == config.end() || found->is_null()) return {};
  const json list = found->is_array() ? *found : json::array({*found});
  std::set<std::int32_t> ids;
  for (const json& id : list) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
    if (!fits) fail_config("{}: eos_token_id={}: expected a token's number or a list of them", name, found->dump());
    ids.insert(id.get<std::int32_t>());
  }
  return ids;
}

ModelFiles open_model_files(const Config& config, const std::string& key) {
  const std::string& path = config.text(key);
  ModelFiles files;
  if (path.empty() || config.text("model_name") != "default") files.shape = model_shape(config);
  if (!path.empty()) open_for_key(key, path, [&] { open_files(config, key, files); });
  return files;
}

std::unique_ptr<Tokenizer> open_model_tokenizer(const Config& config) {
  const std::string type = resolve_tokenizer_type(config);
  const std::string key = tokenizer_key(config);
  const std::string& path = config.text(key);
  return open_for_key(key, path, [&] { return open_tokenizer(path, type); });
}

std::vector<std::string> notes_on_tokenizer(const Tokenizer& tokenizer, const ModelShape& shape) {
  if (tokenizer.vocab_size() <= shape.vocab_size) return {};
  return {fmt::format("the tokenizer has ids up to {}, the model only vocab_size={}: they may not belong together",
                      tokenizer.vocab_size() - 1, shape.vocab_size)};
}

}  // namespace maxtext
