#include "inference/model_files.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/weight_check.h"
#include "model/hf_config.h"
#include "model/shape_differences.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

/// Errors of files to which load_parameters_path leads are errors of that key.
template <typename Open>
auto name_key_in_errors(const Config& config, const Open& open) {
  const std::string& path = config.text("load_parameters_path");
  try {
    return open();
  } catch (const Error& error) {
    std::string_view reason = error.what();
    if (reason.starts_with(path + ": ")) reason.remove_prefix(path.size() + 2);
    fail_config("load_parameters_path={}: {}", path, reason);
  }
}

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

/// config.json says what the model is; keys that say otherwise would be passed over.
void refuse_other_keys(const Config& config, const ModelShape& found) {
  for (const ShapeDifference& difference : shape_differences(found, model_shape(config))) {
    const auto given = std::ranges::find_if(difference.keys, [&](std::string_view key) { return config.is_set(key); });
    if (given == difference.keys.end()) continue;
    fail_config("{}: its config.json has {} {}, and decides; leave the key out", config.describe(*given),
                difference.name, difference.found);
  }
}

void open_files(const Config& config, const std::string& path, ModelFiles& files) {
  files.weights = open_weights(path);
  const json hf_config = files.weights->hf_config();
  if (config.text("model_name") == "default") {
    files.shape = described_shape(hf_config);
    refuse_other_keys(config, files.shape);
  }
  settle_head(files, "load_parameters_path=" + path);
  check_weights(*files.weights, files.shape);
  files.stop_ids = eos_ids(hf_config, "config.json");
  const fs::path generation = fs::path(path) / "generation_config.json";
  if (fs::exists(generation)) files.stop_ids.merge(eos_ids(read_json_object(generation), "generation_config.json"));
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

ModelFiles open_model_files(const Config& config) {
  const std::string& path = config.text("load_parameters_path");
  ModelFiles files;
  if (path.empty() || config.text("model_name") != "default") files.shape = model_shape(config);
  if (!path.empty()) name_key_in_errors(config, [&] { open_files(config, path, files); });
  return files;
}

TokenizerSource model_tokenizer(const Config& config) {
  const std::string& path = config.text("tokenizer_path");
  const std::string& type = config.text("tokenizer_type");
  if (!path.empty() || type == "bytes") return {path, type};
  const fs::path model = config.text("load_parameters_path");
  if (!model.empty() && (fs::exists(model / "tokenizer.json") || fs::exists(model / "tokenizer.model"))) {
    return {model, "sentencepiece"};  // which recognises both
  }
  fail_config("tokenizer_path is empty{}: name a sentencepiece model, or a tokenizer.json or its directory",
              model.empty() ? "" : fmt::format(", and {} has no tokenizer.json or tokenizer.model", model.string()));
}

std::unique_ptr<Tokenizer> open_model_tokenizer(const Config& config) {
  const TokenizerSource source = model_tokenizer(config);
  const auto open = [&] { return open_tokenizer(source.path, source.type); };
  return source.path == config.text("tokenizer_path") ? open() : name_key_in_errors(config, open);
}

}  // namespace maxtext
