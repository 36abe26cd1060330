#include "cli/bench/bench_config.h"

#include "base/error.h"
#include "cli/arguments.h"
#include "config/rules.h"

namespace maxtext::bench {
namespace {

const RuleContext kNoFiles{.launched_devices = {}, .check_files = false};

void set_all(Config& config, const std::vector<std::string>& assignments) {
  const Source source{SourceKind::command_line, "command line"};
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos) fail_config("expected key=value, not '{}'", assignment);
    const std::string key = assignment.substr(0, equals);
    if (key == "model_name") {
      fail_config("{}: models are found beside a configuration file; give it first, as configs/base.yml", assignment);
    }
    config.set(key, std::string_view(assignment).substr(equals + 1), source);
  }
}

}  // namespace

Config bench_config(const std::vector<std::string>& preset, const std::vector<std::string>& overrides) {
  if (!overrides.empty() && overrides.front().find('=') == std::string::npos) {
    ConfigRequest request = config_request(overrides);
    request.check_files = false;
    return load_config(request);
  }
  Config config;
  set_all(config, preset);
  set_all(config, overrides);
  check_rules(config, kNoFiles);
  return config;
}

Config with_length(Config config, std::int64_t sequence_length, int context_parallelism) {
  set_all(config, {"max_target_length=" + std::to_string(sequence_length)});
  if (context_parallelism > 0) set_all(config, {"ici_context_parallelism=" + std::to_string(context_parallelism)});
  check_rules(config, kNoFiles);
  return config;
}

std::vector<std::string> step_preset() {
  return {"base_num_decoder_layers=4", "base_emb_dim=512",    "base_num_query_heads=8",
          "base_num_kv_heads=2",       "head_dim=64",         "base_mlp_dim=1408",
          "vocab_size=8192",           "global_batch_size=1", "remat_policy=none"};
}

std::vector<std::string> attention_bound_preset() {
  return {"base_num_decoder_layers=1", "base_emb_dim=128",    "base_num_query_heads=2",
          "base_num_kv_heads=1",       "head_dim=64",         "base_mlp_dim=256",
          "vocab_size=1024",           "global_batch_size=1", "remat_policy=none"};
}

std::vector<std::string> decode_preset() {
  return {"base_num_decoder_layers=30", "base_emb_dim=576",    "base_num_query_heads=9",
          "base_num_kv_heads=3",        "head_dim=64",         "base_mlp_dim=1536",
          "vocab_size=49152",           "global_batch_size=1", "logits_via_embedding=true"};
}

}  // namespace maxtext::bench
