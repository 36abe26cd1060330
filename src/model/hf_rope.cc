#include "model/hf_rope.h"

#include "ops/rope_frequencies.h"

namespace maxtext {
namespace {

RopeType rope_type(const HfSection& rope) {
  // `type` is the name that transformers used before 4.43.
  const char* key = rope.find("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key).value_or("default");
  if (type == "default") return RopeType::plain;
  if (type == "linear") return RopeType::linear;
  if (type == "llama3") return RopeType::llama3;
  if (type == "yarn") return RopeType::yarn;
  rope.reject(key, "default, linear, llama3 or yarn");
}

void read_llama3(const HfSection& rope, RopeShape& shape) {
  shape.factor = rope.required_positive("factor");
  shape.low_freq_factor = rope.required_positive("low_freq_factor");
  shape.high_freq_factor = rope.required_positive("high_freq_factor");
  shape.original_max_position_embeddings = rope.required_size("original_max_position_embeddings");
  if (shape.high_freq_factor <= shape.low_freq_factor) {
    rope.reject("high_freq_factor", fmt::format("a number above low_freq_factor={}", shape.low_freq_factor));
  }
}

double yarn_attention_factor_of(const HfSection& rope, double factor) {
  if (const std::optional<double> given = rope.positive("attention_factor")) return *given;
  const std::optional<double> mscale = rope.positive("mscale");
  const std::optional<double> all_dim = rope.positive("mscale_all_dim");
  if (!mscale || !all_dim) return yarn_attention_factor(factor);
  return yarn_attention_factor(factor, *mscale) / yarn_attention_factor(factor, *all_dim);
}

void read_yarn(const HfSection& root, const HfSection& rope, RopeShape& shape) {
  const std::optional<std::int64_t> longest = root.size("max_position_embeddings");
  const std::optional<std::int64_t> original = rope.size("original_max_position_embeddings");
  if (!original && !longest) {
    fail_config("{}: original_max_position_embeddings is missing, and so is max_position_embeddings", rope.name());
  }
  shape.original_max_position_embeddings = original ? *original : *longest;
  shape.factor = rope.required_positive("factor");
  shape.beta_fast = rope.positive("beta_fast").value_or(shape.beta_fast);
  shape.beta_slow = rope.positive("beta_slow").value_or(shape.beta_slow);
  shape.truncate = rope.flag("truncate", true);
  shape.attention_factor = yarn_attention_factor_of(rope, shape.factor);
  if (shape.beta_fast <= shape.beta_slow) {
    fail_config("{}: beta_fast={} and beta_slow={}: expected beta_fast above beta_slow", rope.name(), shape.beta_fast,
                shape.beta_slow);
  }
}

/// `rope` is the section with the type; the theta may be in it or beside it.
RopeShape read_section(const HfSection& root, const HfSection& rope, double theta) {
  if (const auto part = rope.positive("partial_rotary_factor"); part && *part != 1.0) {
    rope.reject("partial_rotary_factor", "1, the whole head is rotated");
  }
  RopeShape shape;
  shape.theta = rope.positive("rope_theta").value_or(theta);
  shape.type = rope_type(rope);
  if (shape.type == RopeType::linear) shape.factor = rope.required_positive("factor");
  if (shape.type == RopeType::llama3) read_llama3(rope, shape);
  if (shape.type == RopeType::yarn) read_yarn(root, rope, shape);
  return shape;
}

RopeShape plain(double theta) {
  RopeShape shape;
  shape.theta = theta;
  return shape;
}

constexpr double kLocalTheta = 10000;

/// rope_parameters = {"full_attention": {...}, "sliding_attention": {...}}
HfRopes read_per_layer_type(const HfSection& root, const HfSection& parameters, double default_theta) {
  const std::optional<HfSection> full = parameters.section("full_attention");
  const std::optional<HfSection> sliding = parameters.section("sliding_attention");
  return {.rope = full ? read_section(root, *full, default_theta) : plain(default_theta),
          .local = sliding ? read_section(root, *sliding, kLocalTheta) : plain(kLocalTheta)};
}

}  // namespace

HfRopes read_hf_rope(const HfSection& root, double default_theta, bool per_layer_type) {
  const double theta = root.positive("rope_theta").value_or(default_theta);
  std::optional<HfSection> section = root.section("rope_parameters");
  if (!section) section = root.section("rope_scaling");
  if (section && (section->find("full_attention") || section->find("sliding_attention"))) {
    if (per_layer_type) return read_per_layer_type(root, *section, theta);
    fail_config("{}: a rotary embedding per layer type goes with model_type gemma3_text only", section->name());
  }
  HfRopes ropes{.rope = section ? read_section(root, *section, theta) : plain(theta), .local = std::nullopt};
  if (per_layer_type) ropes.local = plain(root.positive("rope_local_base_freq").value_or(kLocalTheta));
  return ropes;
}

nlohmann::ordered_json hf_rope_scaling(const RopeShape& rope) {
  switch (rope.type) {
    case RopeType::plain:
      return nullptr;
    case RopeType::linear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeType::llama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings}};
    case RopeType::yarn:
      return {{"rope_type", "yarn"},
              {"factor", rope.factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow},
              {"truncate", rope.truncate},
              {"attention_factor", rope.attention_factor}};
  }
  fail("config.json: unknown rope type");
}

}  // namespace maxtext
