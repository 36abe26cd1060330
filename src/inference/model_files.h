// What belongs to a model beside its weights: its shape, its tokenizer, and the tokens that end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>

#include "checkpoint/weight_source.h"
#include "config/config.h"
#include "config/model_shape.h"
#include "tokenizer/tokenizer.h"

namespace maxtext {

/// A model as `load_parameters_path` and the model keys describe it. Without a path `weights` is null.
struct ModelFiles {
  ModelShape shape;
  std::unique_ptr<WeightSource> weights;
  /// Tokens that end an answer according to config.json and generation_config.json, each a number or a list.
  std::set<std::int32_t> stop_ids;
};

/// The model of the configuration. With load_parameters_path and model_name=default the shape is what the directory's
/// or checkpoint's config.json says; a model_name decides itself. Throws ConfigError naming the key for a path without
/// a model, or a file that is not valid.
ModelFiles open_model_files(const Config& config);

/// The tokenizer of the configuration: tokenizer_path with tokenizer_type where it is set; else that of
/// load_parameters_path: its tokenizer.json, or its tokenizer.model. Throws ConfigError saying what to set when there
/// is none.
std::unique_ptr<Tokenizer> open_model_tokenizer(const Config& config);

/// `eos_token_id` of a parsed config.json or generation_config.json, a number or a list of numbers; empty when absent.
/// Throws ConfigError naming `name` for anything else.
std::set<std::int32_t> eos_ids(const nlohmann::json& config, const std::string& name);

}  // namespace maxtext
