#include "config/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string_view>
#include <vector>

#include "config/model_shape.h"

namespace maxtext {
namespace {

/// `text` in lines of at most `width` columns, each after `prefix`.
std::string wrap(std::string_view text, std::string_view prefix, std::size_t width) {
  std::istringstream words{std::string(text)};
  std::string result;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && prefix.size() + line.size() + 1 + word.size() > width) {
      result += fmt::format("{}{}\n", prefix, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return result + fmt::format("{}{}\n", prefix, line);
}

/// "int, -1 or at least 1".
std::string type_and_allowed(const Key& key) {
  const std::string allowed = allowed_phrase(key);
  return fmt::format("{}{}{}", type_name(key.type()), allowed.empty() ? "" : ", ", allowed);
}

/// Calls `begin_group(title)` before the first key of each group with a key of `status`, and `visit(key)` for each.
template <typename BeginGroup, typename Visit>
void for_each_key(KeyStatus status, BeginGroup begin_group, Visit visit) {
  std::string_view group;
  for (const Key& key : all_keys()) {
    if (key.status != status) continue;
    if (key.group != group) begin_group(key.group);
    group = key.group;
    visit(key);
  }
}

std::string markdown_code(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return fmt::format("`{}`", escaped);
}

/// Help as prose: names in angle brackets are not tags.
std::string markdown_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '<' ? "&lt;" : std::string(1, c);
  return escaped;
}

std::string markdown_key(const Key& key) {
  std::string name = markdown_code(key.name);
  for (const std::string& alias : key.aliases) name += fmt::format(" ({})", markdown_code(alias));
  return key.is_ours ? name + " *" : name;
}

/// Ignored keys of one reason share a row.
std::string ignored_rows() {
  std::string rows;
  std::vector<std::string> names;
  std::string reason;
  const auto flush = [&] {
    if (!names.empty()) rows += fmt::format("| {} | {} |\n", reason, fmt::join(names, ", "));
    names.clear();
  };
  for_each_key(
      KeyStatus::ignored, [](std::string_view) {},
      [&](const Key& key) {
        if (key.help != reason) flush();
        reason = key.help;
        names.push_back(markdown_code(key.name));
      });
  flush();
  return rows;
}

constexpr std::string_view kMarkdownIntroduction =
    R"(<!-- Made by `maxtext config --markdown` (scripts/update_config_docs); edit src/config/keys_*.cc instead. -->
# Configuration

    maxtext train configs/base.yml key=value ...
    maxtext train configs/runs/my_run.yml key=value ...

Names and meanings are MaxText's wherever it has them; keys marked * are ours. Values come from, later ones winning:

1. `configs/base.yml`, which lists every key;
2. `configs/models/<model_name>.yml`;
3. the run file, when one is given in place of base.yml: it names its `base_config: base.yml`;
4. environment variables `M_<KEY>`, as `M_STEPS=10`;
5. `key=value` on the command line.

A key that the model's file sets can be given another value only with `override_model_config=true`. An unknown key, a
value of the wrong type or out of range, and values that do not fit together end the program before any data is read,
with one line and exit code 2. Numbers may have underscores (`10_000`), lists are written `a,b` or `[a, b]`.

`maxtext config KEY...` explains keys, `maxtext config --dump FILE key=value ...` prints the resolved configuration with
the origin of every value, as a run file.
)";

constexpr std::string_view kMarkdownFixed = R"(
## Not here yet

Features of MaxText whose keys are known; only these values are accepted.

| key | accepted | |
|---|---|---|
)";

constexpr std::string_view kMarkdownIgnored = R"(
## Accepted without effect

Keys of MaxText that change no result here. One line at start-up names those that were given.

| why | keys |
|---|---|
)";

std::string resolved_comments(const Config& config, const MeshSizes& mesh) {
  const BatchSizes batch = resolve_batch(config, mesh);
  std::string text = "\n# What follows from the keys above:\n";
  text += fmt::format("# mesh: data {}, fsdp {}, context {}, tensor {}: {} devices\n", mesh[0], mesh[1], mesh[2],
                      mesh[3], device_count(mesh));
  text += fmt::format("# rows per step: {}, per micro-batch: {}, per device and micro-batch: {}\n", batch.global,
                      batch.micro, batch.per_device);
  text += fmt::format("# reordering: {}\n", resolve_reorder_strategy(config));
  return text + fmt::format("# parameters: {}\n", parameter_count(model_shape(config)));
}

/// Beside global_batch_size, per_device_batch_size is unset; written out, its default would contradict. The defaults of
/// the others leave a choice (of the tokenizer's kind, of prompt_file, of compile_topology) that they decide where
/// somebody gave them.
bool says_more_when_given(const Config& config, std::string_view key) {
  if (key == "per_device_batch_size") return config.integer("global_batch_size") > 0;
  return (key == "tokenizer_type" || key == "prompt" || key == "hardware") && !config.is_set(key);
}

}  // namespace

std::string describe_key(const Key& key) {
  std::string text = fmt::format("{}\n", key.name);
  if (key.status != KeyStatus::ignored) {
    text += fmt::format("  type     {}\n  default  {}\n", type_name(key.type()), format_value(key.default_value));
    const std::string allowed = allowed_phrase(key);
    if (!allowed.empty()) text += fmt::format("  allowed  {}\n", allowed);
    if (!key.later.empty()) text += fmt::format("  not yet  {}\n", fmt::join(key.later, ", "));
    if (!key.aliases.empty()) text += fmt::format("  also     {}\n", fmt::join(key.aliases, ", "));
  }
  text += fmt::format("  group    {}{}\n", key.group, key.is_ours ? " (not in MaxText)" : "");
  return text + wrap(key.help + ".", "  ", 100);
}

std::string describe_all_keys() {
  std::string text;
  for_each_key(
      KeyStatus::active,
      [&](std::string_view group) { text += fmt::format("{}{}\n", text.empty() ? "" : "\n", group); },
      [&](const Key& key) {
        text += fmt::format("  {} = {}  ({})\n", key.name, format_value(key.default_value), type_and_allowed(key));
      });
  return text + "\n`maxtext config KEY...` explains keys; docs/configuration.md has them all.\n";
}

std::string base_yaml() {
  std::string text =
      "# Every key that does something, at its default. Made by `maxtext config --yaml` (scripts/update_config_docs) "
      "from\n# src/config/keys_*.cc. Settings of your own belong into a run file that names `base_config: base.yml`, "
      "or "
      "on the\n# command line.\n";
  for_each_key(
      KeyStatus::active, [&](std::string_view group) { text += fmt::format("\n# ---- {} ----\n", group); },
      [&](const Key& key) {
        text += wrap(fmt::format("{} ({}).", key.help, type_and_allowed(key)), "# ", 120);
        text += fmt::format("{}: {}\n", key.name, format_value(key.default_value));
      });
  return text;
}

std::string configuration_markdown() {
  std::string text(kMarkdownIntroduction);
  for_each_key(
      KeyStatus::active,
      [&](std::string_view group) {
        text += fmt::format("\n## {}\n\n| key | type and allowed values | default | |\n|---|---|---|---|\n", group);
      },
      [&](const Key& key) {
        text += fmt::format("| {} | {} | {} | {}. |\n", markdown_key(key), type_and_allowed(key),
                            markdown_code(format_value(key.default_value)), markdown_text(key.help));
      });
  text += kMarkdownFixed;
  for_each_key(
      KeyStatus::fixed, [](std::string_view) {},
      [&](const Key& key) {
        text += fmt::format("| {} | {} | {}. |\n", markdown_key(key), markdown_code(allowed_phrase(key)), key.help);
      });
  text += kMarkdownIgnored;
  return text + ignored_rows();
}

std::string dump_config(const Config& config, const std::string& base_file, const MeshSizes& mesh) {
  std::string text = fmt::format("base_config: {}\n", format_value(Value(base_file)));
  for_each_key(
      KeyStatus::active, [&](std::string_view group) { text += fmt::format("\n# ---- {} ----\n", group); },
      [&](const Key& key) {
        if (says_more_when_given(config, key.name)) return;
        text += fmt::format("{}: {}  # {}\n", key.name, format_value(config.value(key.name)),
                            config.source(key.name).where);
      });
  return text + resolved_comments(config, mesh);
}

}  // namespace maxtext
