// What belongs to a model beside its weights: its shape, its tokenizer, and the tokens that end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/weight_source.h"
#include "config/config.h"
#include "config/model_shape.h"
#include "tokenizer/tokenizer.h"

namespace maxtext {

/// A model as `load_parameters_path` and the model keys describe it. Without a path `weights` is null.
struct ModelFiles {
  ModelShape shape;
  std::unique_ptr<WeightSource> weights;
  /// Where `weights` are: the path given, or of a run directory the checkpoint that was taken.
  std::filesystem::path directory;
  /// Tokens that end an answer according to config.json and generation_config.json, each a number or a list.
  std::set<std::int32_t> stop_ids;
  /// Lines to show to whoever asked for this model: which checkpoint of a run was taken, where its files contradict
  /// each other, and what was made of it.
  std::vector<std::string> warnings;
};

/// The model of the configuration. With load_parameters_path and model_name=default the shape is what the directory's
/// or checkpoint's config.json says; a model_name decides itself. A head that is missing is the embedding, whatever
/// config.json says of it, and one beside a tied embedding is left unread; both with a warning where it may matter.
///
/// Model keys that were given and contradict such a config.json are refused, as they would be passed over. Of Hugging
/// Face's files headers are read here, and of the data no more than some rows of such a head; the weights of a
/// checkpoint are verified. Throws ConfigError naming the key, its value and the file for a path without a model, a
/// file that is not valid, a damaged checkpoint, and a tensor of the model that is missing, has another shape
/// (expected, found) or a type that is not computed with, or is not the model's.
///
/// `key` names the path in place of load_parameters_path.
ModelFiles open_model_files(const Config& config, const std::string& key = "load_parameters_path");

/// The tokenizer of the configuration: at tokenizer_path where that is set, else the tokenizer.json or tokenizer.model
/// in load_parameters_path; of tokenizer_type where that is given, else what lies there. Throws ConfigError saying what
/// to set where there is none, and naming the key that leads to a file that is not valid.
std::unique_ptr<Tokenizer> open_model_tokenizer(const Config& config);

/// A line where the tokenizer has ids that the model has no row for, as some published ones have. Only a text with such
/// a token is an error.
std::vector<std::string> notes_on_tokenizer(const Tokenizer& tokenizer, const ModelShape& shape);

/// `eos_token_id` of a parsed config.json or generation_config.json, a number or a list of numbers; empty when absent.
/// Throws ConfigError naming `name` for anything else, also for a number that no token has.
std::set<std::int32_t> eos_ids(const nlohmann::json& config, const std::string& name);

}  // namespace maxtext
