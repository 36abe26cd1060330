#include "config/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "config/compile_topology.h"

namespace maxtext {
namespace {

constexpr std::array<std::string_view, 4> kAxes = {"data", "fsdp", "context", "tensor"};
using LevelSizes = std::array<std::int64_t, 4>;
constexpr std::int64_t kMostDevices = 1 << 20;
constexpr std::int64_t kMostRows = 1'000'000'000;  // as global_batch_size

std::string axis_key(std::string_view level, std::size_t axis) {
  return fmt::format("{}_{}_parallelism", level, kAxes[axis]);
}

LevelSizes configured_sizes(const Config& config, std::string_view level) {
  LevelSizes sizes{};
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis) sizes[axis] = config.integer(axis_key(level, axis));
  return sizes;
}

/// The axes that make the product what it is, for error messages.
std::string describe_level(const Config& config, std::string_view level, const LevelSizes& sizes) {
  std::vector<std::string> parts;
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis) {
    if (sizes[axis] > 1) parts.push_back(config.describe(axis_key(level, axis)));
  }
  if (parts.empty()) return fmt::format("{}_*_parallelism=1", level);
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The product of the sizes that are not -1, times `others`.
std::int64_t explicit_product(const Config& config, std::string_view level, const LevelSizes& sizes,
                              std::int64_t others = 1) {
  std::int64_t product = others;
  for (const std::int64_t size : sizes) {
    const std::int64_t factor = size == -1 ? 1 : size;
    // Asked before each multiplication: four sizes within their own limits can exceed 64 bits.
    if (product > kMostDevices / factor) {
      fail_config("{}: expected at most {} devices", describe_level(config, level, sizes), kMostDevices);
    }
    product *= factor;
  }
  return product;
}

std::optional<std::size_t> automatic_axis(const Config& config, std::string_view level, const LevelSizes& sizes) {
  std::optional<std::size_t> found;
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis) {
    if (sizes[axis] != -1) continue;
    if (found) {
      fail_config("{} and {}: at most one {} axis may be -1", config.describe(axis_key(level, *found)),
                  config.describe(axis_key(level, axis)), level);
    }
    found = axis;
  }
  return found;
}

/// Sizes of one level whose product is `total`; `whence` says where the total comes from.
LevelSizes resolve_level(const Config& config, std::string_view level, std::int64_t total, std::string_view whence) {
  LevelSizes sizes = configured_sizes(config, level);
  const auto automatic = automatic_axis(config, level, sizes);
  const std::int64_t product = explicit_product(config, level, sizes);
  if (automatic ? total % product != 0 : total != product) {
    fail_config("{}: the product of the {} axes is {}, expected {}{} ({}){}", describe_level(config, level, sizes),
                level, product, automatic ? "a divisor of " : "", total, whence,
                automatic ? "" : fmt::format("; one {} axis may be -1 to take what is left", level));
  }
  if (automatic) sizes[*automatic] = total / product;
  return sizes;
}

struct Devices {
  std::int64_t count;
  std::string whence;
};

/// Those of compile_topology; nothing where it is not set.
std::optional<Devices> topology_devices(const Config& config, std::int64_t slices) {
  const CompileTopology* const topology = find_compile_topology(config.text("compile_topology"));
  if (topology == nullptr) return std::nullopt;
  return Devices{topology->devices_per_slice * slices, config.describe("compile_topology")};
}

std::optional<Devices> known_devices(const Config& config, std::optional<int> launched, std::int64_t slices) {
  const std::int64_t configured = config.integer("num_devices");
  std::optional<Devices> compiled_for = topology_devices(config, slices);
  if (launched) {
    if (configured != -1 && configured != *launched) {
      fail_config("{}: the launcher started {} processes, each one device; leave num_devices at -1",
                  config.describe("num_devices"), *launched);
    }
    return Devices{*launched, fmt::format("the launcher started {} processes", *launched)};
  }
  if (configured == -1) return compiled_for;
  if (compiled_for && compiled_for->count != configured) {
    fail_config("{}: {} has {} devices{}; leave num_devices at -1", config.describe("num_devices"),
                compiled_for->whence, compiled_for->count, slices == 1 ? "" : fmt::format(" in {} slices", slices));
  }
  return Devices{configured, config.describe("num_devices")};
}

std::vector<std::string> below_dataset_path(const Config& config, const std::vector<std::string>& files) {
  const std::filesystem::path folder = config.text("dataset_path");
  std::vector<std::string> paths;
  for (const std::string& file : files) paths.push_back(folder.empty() ? file : (folder / file).string());
  return paths;
}

BatchSizes divide_batch(std::int64_t global, std::int64_t accumulation, const MeshSizes& mesh) {
  BatchSizes sizes;
  sizes.global = global;
  sizes.micro = global / accumulation;
  sizes.local = sizes.micro / (std::int64_t{mesh[0]} * mesh[1]);
  sizes.per_device = static_cast<double>(sizes.micro) / device_count(mesh);
  return sizes;
}

}  // namespace

std::int64_t resolve_slices(const Config& config) {
  const std::int64_t configured = config.integer("num_slices");
  const std::int64_t compiled_for = config.integer("compile_topology_num_slices");
  if (configured != -1 && compiled_for != -1 && configured != compiled_for) {
    fail_config("{} and {}: they disagree; set only one", config.describe("num_slices"),
                config.describe("compile_topology_num_slices"));
  }
  if (configured != -1) return configured;
  if (compiled_for != -1) return compiled_for;
  return explicit_product(config, "dcn", configured_sizes(config, "dcn"));
}

MeshSizes resolve_mesh(const Config& config, std::optional<int> launched_devices) {
  const std::int64_t slices = resolve_slices(config);
  const char* const slices_key = config.integer("num_slices") == -1 ? "compile_topology_num_slices" : "num_slices";
  const bool derived = config.integer(slices_key) == -1;
  const LevelSizes dcn = resolve_level(config, "dcn", slices, fmt::format("num_slices={}", slices));
  LevelSizes ici = configured_sizes(config, "ici");
  if (const auto devices = known_devices(config, launched_devices, slices)) {
    if (devices->count % slices != 0) {
      const LevelSizes asked = configured_sizes(config, "dcn");
      fail_config("{}: expected a divisor of {} devices ({})",
                  derived ? describe_level(config, "dcn", asked) : config.describe(slices_key), devices->count,
                  devices->whence);
    }
    ici = resolve_level(config, "ici", devices->count / slices, devices->whence);
  } else {
    ici = resolve_level(config, "ici", explicit_product(config, "ici", ici), "no launcher");
  }
  explicit_product(config, "ici", ici, slices);  // the number of devices, within its limit
  MeshSizes mesh{};
  for (std::size_t axis = 0; axis < mesh.size(); ++axis) mesh[axis] = static_cast<int>(dcn[axis] * ici[axis]);
  return mesh;
}

int device_count(const MeshSizes& mesh) { return mesh[0] * mesh[1] * mesh[2] * mesh[3]; }

BatchSizes resolve_batch(const Config& config, const MeshSizes& mesh) {
  const std::int64_t accumulation = config.integer("gradient_accumulation_steps");
  const std::int64_t groups = std::int64_t{mesh[0]} * mesh[1];
  const int devices = device_count(mesh);
  const double micro = config.real("per_device_batch_size") * devices;
  const std::int64_t global = config.integer("global_batch_size");
  if (global > 0) {
    if (config.is_set("per_device_batch_size") &&
        std::abs(micro * static_cast<double>(accumulation) - static_cast<double>(global)) > 1e-6) {
      fail_config(
          "{} and {}: with {} devices and gradient_accumulation_steps={} the latter makes {} rows; set only one",
          config.describe("global_batch_size"), config.describe("per_device_batch_size"), devices, accumulation,
          micro * static_cast<double>(accumulation));
    }
    if (global % (groups * accumulation) != 0) {
      fail_config("{}: expected a multiple of {} (data {} x fsdp {} x gradient_accumulation_steps {})",
                  config.describe("global_batch_size"), groups * accumulation, mesh[0], mesh[1], accumulation);
    }
    return divide_batch(global, accumulation, mesh);
  }
  const std::int64_t rows = std::llround(micro);
  if (devices == 1 && (rows < 1 || std::abs(micro - static_cast<double>(rows)) > 1e-6)) {
    fail_config("{}: expected a whole number, at least 1", config.describe("per_device_batch_size"));
  }
  if (rows < 1 || std::abs(micro - static_cast<double>(rows)) > 1e-6 || rows % groups != 0) {
    fail_config("{}: times {} devices it is {} rows, expected a multiple of {} (data {} x fsdp {})",
                config.describe("per_device_batch_size"), devices, micro, groups, mesh[0], mesh[1]);
  }
  if (rows > kMostRows / accumulation) {
    fail_config("{}: with {} devices and gradient_accumulation_steps={} it makes more than {} rows per step",
                config.describe("per_device_batch_size"), devices, accumulation, kMostRows);
  }
  return divide_batch(rows * accumulation, accumulation, mesh);
}

std::int64_t resolve_steps(const Config& config) {
  const std::int64_t steps = config.integer("steps");
  return steps == -1 ? config.integer("learning_rate_schedule_steps") : steps;
}

std::int64_t resolve_schedule_steps(const Config& config) {
  const std::int64_t steps = config.integer("learning_rate_schedule_steps");
  return steps == -1 ? config.integer("steps") : steps;
}

std::string resolve_reorder_strategy(const Config& config) {
  return config.flag("context_parallel_load_balance") ? config.text("context_parallel_reorder_strategy") : "none";
}

std::vector<std::string> resolve_train_files(const Config& config) {
  if (!config.list("train_files").empty()) return below_dataset_path(config, config.list("train_files"));
  if (config.text("dataset_path").empty()) return {};
  return {config.text("dataset_path")};
}

std::vector<std::string> resolve_eval_files(const Config& config) {
  return below_dataset_path(config, config.list("eval_files"));
}

std::string resolve_tokenizer_type(const Config& config) {
  return config.is_set("tokenizer_type") ? config.text("tokenizer_type") : std::string();
}

std::string resolve_run_directory(const Config& config) {
  return (std::filesystem::path(config.text("base_output_directory")) / config.text("run_name")).string();
}

}  // namespace maxtext
