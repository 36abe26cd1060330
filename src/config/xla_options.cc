#include "config/xla_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "base/error.h"
#include "config/resolve.h"

namespace maxtext {
namespace {

const CompileTopology* resolve_topology(const Config& config) {
  const std::string& name = config.text("compile_topology");
  if (name.empty()) {
    if (config.integer("compile_topology_num_slices") == -1) return nullptr;
    fail_config("{}: it counts slices of compile_topology, which is not set",
                config.describe("compile_topology_num_slices"));
  }
  const CompileTopology* const found = find_compile_topology(name);
  if (found != nullptr) return found;
  fail_config("{}: unknown{}; known are {}", config.describe("compile_topology"), did_you_mean_topology(name),
              compile_topology_families());
}

/// "hardware=tpu (command line)", or the topology that decides it.
std::string describe_hardware(const Config& config) {
  return config.describe(config.is_set("hardware") ? "hardware" : "compile_topology");
}

Hardware resolve_hardware(const Config& config, const CompileTopology* topology) {
  const std::string& name = config.text("hardware");
  Hardware hardware = Hardware::gpu;  // gpu_multiprocess, too
  if (name == "cpu") hardware = Hardware::cpu;
  if (name == "tpu") hardware = Hardware::tpu;
  if (topology == nullptr) return hardware;
  const Hardware needed = topology->accelerator->hardware;
  if (config.is_set("hardware") && hardware != needed) {
    fail_config("{}: {} needs hardware={}", config.describe("hardware"), config.describe("compile_topology"),
                hardware_name(needed));
  }
  return needed;
}

EngineKind resolve_engine(const Config& config, Hardware hardware) {
  const std::string& name = config.text("engine");
  if (name == "xla") return EngineKind::xla;
  if (name == "auto") return hardware == Hardware::cpu ? EngineKind::native : EngineKind::xla;
  if (hardware == Hardware::cpu) return EngineKind::native;
  fail_config("{} and {}: the native engine runs on the cpu only; use engine=xla", config.describe("engine"),
              describe_hardware(config));
}

/// Keys that would be passed over in silence. Those of MaxText, and the plugin's path, which may be set once for a
/// whole machine, are none of them.
void check_native(const Config& config) {
  if (config.text("dtype") != "float32") {
    fail_config("{}: the native engine trains in float32; use engine=xla, or dtype=float32", config.describe("dtype"));
  }
  for (const char* key : {"xla_dump_to", "xla_verify_first_step"}) {
    if (config.value(key) == Config().value(key)) continue;
    fail_config("{}: {} with {} is the native engine, which compiles nothing; use engine=xla", config.describe(key),
                config.describe("engine"), config.describe("hardware"));
  }
}

/// A path whose leading `~/` is replaced; empty where it needs a home directory and there is none.
std::filesystem::path below_home(const std::string& path) {
  if (!path.starts_with("~/")) return path;
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nobody sets variables meanwhile
  if (home == nullptr || *home == '\0') return path;
  return std::filesystem::path(home) / path.substr(2);
}

Value flag_value(const std::string& text) {
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "true" || lower == "false") return lower == "true";
  if (const auto integer = parse_value(ValueType::integer, text)) return *integer;
  if (const auto real = parse_value(ValueType::real, text)) return *real;
  return text;
}

bool is_flag_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

XlaFlag parse_flag(const std::string& word, std::string_view key) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  if (!name.starts_with("--") || !is_flag_name(std::string_view(name).substr(2))) {
    fail_config("{}: '{}' is no flag; expected --name=value, with spaces between flags", key, word);
  }
  return {name.substr(2), equals == std::string::npos ? Value(true) : flag_value(word.substr(equals + 1))};
}

XlaOptions xla_options(const Config& config) {
  XlaOptions options;
  options.plugin_path = below_home(config.text("xla_plugin_path"));
  options.dump_directory = below_home(config.text("xla_dump_to"));
  options.verify_first_step = config.flag("xla_verify_first_step");
  options.cache_directory = below_home(config.text("jax_cache_dir"));
  // A cache can be done without, unlike what is looked for in a home that is not there.
  if (options.cache_directory.string().starts_with("~/")) options.cache_directory.clear();
  options.compiler_flags = parse_xla_flags(config.text("compile_xla_flags"), config.describe("compile_xla_flags"));
  return options;
}

}  // namespace

std::string_view engine_name(EngineKind engine) { return engine == EngineKind::native ? "native" : "xla"; }

std::vector<XlaFlag> parse_xla_flags(std::string_view text, std::string_view key) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  if (quoted) text = text.substr(1, text.size() - 2);
  std::istringstream words{std::string(text)};
  std::vector<XlaFlag> flags;
  for (std::string word; words >> word;) {
    XlaFlag flag = parse_flag(word, key);
    const auto same = std::ranges::find(flags, flag.name, &XlaFlag::name);
    if (same == flags.end()) {
      flags.push_back(std::move(flag));
    } else {
      *same = std::move(flag);
    }
  }
  return flags;
}

EngineChoice engine_choice(const Config& config) {
  EngineChoice choice;
  choice.topology = resolve_topology(config);
  choice.hardware = resolve_hardware(config, choice.topology);
  choice.engine = resolve_engine(config, choice.hardware);
  choice.bfloat16 = config.text("dtype") == "bfloat16";
  choice.slices = static_cast<int>(resolve_slices(config));
  choice.xla = xla_options(config);
  if (choice.engine == EngineKind::native) check_native(config);
  return choice;
}

}  // namespace maxtext
