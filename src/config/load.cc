#include "config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "base/error.h"
#include "config/keys.h"
#include "config/nearest.h"
#include "config/rules.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

/// One `key: value` as someone wrote it.
struct Assignment {
  std::string key;
  std::string text;
  Source source;
};

/// "; did you mean configs/base.yml?" for src/MaxText/configs/base.yml and the like, where MaxText has it.
std::string hint_at_our_file(const fs::path& file) {
  const std::string text = file.generic_string();
  const std::size_t at = text.rfind("configs/");
  std::error_code error;
  if (at == std::string::npos || at == 0 || !fs::is_regular_file(text.substr(at), error)) return "";
  return fmt::format("; did you mean {}?", text.substr(at));
}

fs::path find_file(const fs::path& file) {
  std::error_code error;
  for (const fs::path& candidate : {file, "configs" / file}) {
    if (fs::is_regular_file(candidate, error)) return candidate.lexically_normal();
  }
  if (fs::is_directory(file, error)) {
    fail_config("configuration file '{}' is a folder, expected a file as configs/base.yml", file.string());
  }
  if (const std::string hint = hint_at_our_file(file); !hint.empty()) {
    fail_config("configuration file '{}' does not exist{}", file.string(), hint);
  }
  fail_config("configuration file '{}' does not exist{}", file.string(),
              file.is_absolute() ? "" : fmt::format(" (nor does '{}')", ("configs" / file).string()));
}

std::string scalar_or_list(const YAML::Node& node, std::string_view key, const std::string& where) {
  if (node.IsNull()) return "";
  if (node.IsScalar()) return node.Scalar();
  std::vector<std::string> items;
  if (node.IsSequence() && std::all_of(node.begin(), node.end(), [](const YAML::Node& n) { return n.IsScalar(); })) {
    for (const YAML::Node& item : node) items.push_back(item.Scalar());
    return format_value(Value(items));
  }
  const auto index = find_key(key);
  // MaxText's structured keys (logical_axis_rules) have no meaning here whatever they hold.
  if (index && all_keys()[*index].status == KeyStatus::ignored) return "...";
  fail_config("{} ({}): expected a single value or a list of them", key, where);
}

std::vector<Assignment> read_yaml(const fs::path& path, SourceKind kind) {
  std::vector<Assignment> assignments;
  try {
    const YAML::Node root = YAML::LoadFile(path.string());
    if (!root.IsMap() && !root.IsNull()) fail_config("{}: expected lines of `key: value`", path.string());
    std::set<std::string> seen;
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) fail_config("{}: expected lines of `key: value`", path.string());
      const std::string where = fmt::format("{}:{}", path.string(), entry.first.Mark().line + 1);
      const std::string key = entry.first.Scalar();
      if (!seen.insert(key).second) fail_config("{} ({}): the key stands twice in this file", key, where);
      assignments.push_back({key, scalar_or_list(entry.second, key, where), Source{kind, where}});
    }
  } catch (const YAML::Exception& error) {
    fail_config("{}:{}: not YAML: {}", path.string(), error.mark.line + 1, error.msg);
  }
  return assignments;
}

/// A file of the chain from run file to base.yml, without its base_config line.
struct ChainFile {
  fs::path path;
  std::vector<Assignment> assignments;
};

fs::path find_base_config(const fs::path& run_file, const Assignment& base) {
  const fs::path folder = run_file.parent_path();
  std::error_code error;
  for (const fs::path& candidate : {folder / base.text, folder / ".." / base.text}) {
    if (fs::is_regular_file(candidate, error)) return candidate.lexically_normal();
  }
  fail_config("base_config={} ({}): no such file beside the run file or one folder above", base.text,
              base.source.where);
}

/// What stands at the bottom of a chain has to be a base.yml: without it, another file's keys would be laid over the
/// program's defaults, and models would be looked for beside it. `file` names no base_config.
void check_is_base(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.find("base") != std::string::npos) return;
  std::error_code error;
  if (file.parent_path().filename() == "models" && fs::exists(file.parent_path() / ".." / "base.yml", error)) {
    fail_config("{}: it is the file of a model; give configs/base.yml, and model_name={} behind it", file.string(),
                file.stem().string());
  }
  fail_config("{}: it has no base_config; a run file names the base.yml that it changes, as base_config: base.yml",
              file.string());
}

/// The given file and those it is based on, base.yml first.
std::vector<ChainFile> read_chain(const fs::path& file) {
  constexpr std::size_t kLongest = 16;
  std::vector<ChainFile> chain;
  std::optional<fs::path> next = find_file(file);
  while (next) {
    if (chain.size() == kLongest) fail_config("{}: base_config leads in a circle", file.string());
    ChainFile link{*next, read_yaml(*next, SourceKind::run_file)};
    next.reset();
    const auto base = std::find_if(link.assignments.begin(), link.assignments.end(),
                                   [](const Assignment& a) { return a.key == "base_config"; });
    if (base != link.assignments.end()) {
      next = find_base_config(link.path, *base);
      link.assignments.erase(base);
    } else {
      check_is_base(link.path);
    }
    chain.insert(chain.begin(), std::move(link));
  }
  for (Assignment& assignment : chain.front().assignments) assignment.source.kind = SourceKind::base_file;
  return chain;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

std::vector<Assignment> read_environment(const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<Assignment> assignments;
  for (const auto& [name, text] : environment) {
    if (!name.starts_with("M_") || name.size() == 2 || upper(name) != name) continue;
    std::string key = name.substr(2);
    std::transform(key.begin(), key.end(), key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    assignments.push_back({key, text, Source{SourceKind::environment, "environment " + name}});
  }
  return assignments;
}

std::vector<Assignment> read_overrides(const std::vector<std::string>& overrides) {
  std::vector<Assignment> assignments;
  for (const std::string& argument : overrides) {
    const auto equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) fail_config("argument '{}': expected key=value", argument);
    if (argument.front() == '-') fail_config("argument '{}': expected key=value, without dashes", argument);
    assignments.push_back(
        {argument.substr(0, equals), argument.substr(equals + 1), Source{SourceKind::command_line, "command line"}});
  }
  return assignments;
}

std::vector<fs::path> model_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yml") files.push_back(entry.path());
  }
  return files;
}

std::vector<std::string> model_names(const fs::path& folder) {
  std::vector<std::string> names = {"default"};
  for (const fs::path& file : model_files(folder)) names.push_back(file.stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The file of the model, or nothing for `default`, whose dimensions are those of base.yml.
std::optional<fs::path> find_model_file(const Config& config, const fs::path& folder) {
  const std::string& name = config.text("model_name");
  if (name == "default") return std::nullopt;
  const std::vector<std::string> names = model_names(folder);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    fail_config("{}: unknown model{}; known are {}", config.describe("model_name"), did_you_mean(name, views),
                fmt::join(names, ", "));
  }
  return folder / (name + ".yml");
}

/// Refuses values that differ from the model's file, unless that is asked for. `model` holds what the file says.
void check_model_keys(const Config& config, const Config& model) {
  if (config.flag("override_model_config")) return;
  for (const Key& key : all_keys()) {
    const bool from_model = model.source(key.name).kind == SourceKind::model_file;
    if (!from_model || config.value(key.name) == model.value(key.name)) continue;
    fail_config("{}: {} says {} ({}); override_model_config=true allows another value", config.describe(key.name),
                model.text("model_name"), format_value(model.value(key.name)), model.source(key.name).where);
  }
}

/// The model's name, which decides the file that is read between base.yml and the rest.
Config peek_model_name(const std::vector<Assignment>& base, const std::vector<Assignment>& rest) {
  Config config;
  for (const auto* part : {&base, &rest}) {
    for (const Assignment& assignment : *part) {
      if (assignment.key == "model_name") config.set(assignment.key, assignment.text, assignment.source);
    }
  }
  return config;
}

void set_all(Config& config, const std::vector<Assignment>& assignments) {
  for (const Assignment& assignment : assignments) config.set(assignment.key, assignment.text, assignment.source);
}

void append(std::vector<Assignment>& to, std::vector<Assignment> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

fs::path find_base_file(const fs::path& file) { return read_chain(file).front().path; }

std::vector<fs::path> configuration_files(const fs::path& file) {
  const std::vector<ChainFile> chain = read_chain(file);
  std::vector<fs::path> files = model_files(chain.front().path.parent_path() / "models");
  for (const ChainFile& link : chain) files.push_back(link.path);
  return files;
}

Config load_config(const ConfigRequest& request) {
  std::vector<ChainFile> chain = read_chain(request.file);
  std::vector<Assignment> base = std::move(chain.front().assignments);
  std::vector<Assignment> rest;
  for (std::size_t i = 1; i < chain.size(); ++i) append(rest, std::move(chain[i].assignments));
  append(rest, read_environment(request.environment));
  append(rest, read_overrides(request.overrides));

  Config config;
  set_all(config, base);
  const Config peeked = peek_model_name(base, rest);
  const auto model_file = find_model_file(peeked, chain.front().path.parent_path() / "models");
  if (model_file) set_all(config, read_yaml(*model_file, SourceKind::model_file));
  Config model = config;
  if (peeked.is_set("model_name")) model.set("model_name", peeked.text("model_name"), peeked.source("model_name"));
  set_all(config, rest);
  check_model_keys(config, model);
  if (request.only_evaluates && !config.is_set("dataset_type")) {
    config.set("dataset_type", "text", Source{SourceKind::builtin, "default"});
  }
  check_rules(config, {request.launched_devices, request.check_files, request.saves_run, request.only_evaluates});
  return config;
}

}  // namespace maxtext
