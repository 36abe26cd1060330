#include "engines/xla/plugin.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

/// Where Python packages put a plugin.
struct PackagedPlugin {
  std::string_view hardware;
  std::string_view folder;
  std::string_view file;
};

constexpr std::array kPlugins = {
    PackagedPlugin{"cpu", "lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"},
    PackagedPlugin{"tpu", "libtpu", "libtpu.so"},
    PackagedPlugin{"gpu", "jax_plugins/xla_cuda13", "xla_cuda_plugin.so"},
    PackagedPlugin{"gpu", "jax_plugins/xla_cuda12", "xla_cuda_plugin.so"},
};

void check_hardware(std::string_view hardware) {
  const bool known = std::ranges::any_of(kPlugins, [&](const auto& plugin) { return plugin.hardware == hardware; });
  if (!known) fail_config("hardware={}: expected cpu, tpu or gpu", hardware);
}

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Empty where there is no home.
fs::path installed_folder(std::string_view hardware) {
  if (const fs::path folder = from_environment("MAXTEXT_XLA_DIR"); !folder.empty()) return folder / hardware;
  fs::path data = from_environment("XDG_DATA_HOME");
  const fs::path home = from_environment("HOME");
  if (data.empty() && !home.empty()) data = home / ".local/share";
  return data.empty() ? data : data / "maxtext/xla" / hardware;
}

/// 12 for "python3.12", 0 for "python3".
std::optional<int> minor_version_of_python(std::string_view name) {
  static constexpr std::string_view kPython = "python3";
  if (!name.starts_with(kPython)) return std::nullopt;
  name.remove_prefix(kPython.size());
  if (name.empty()) return 0;
  int minor = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), minor);
  if (name.front() != '.' || error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return minor;
}

/// Appends the package folders in lib/python3*, newer versions first. Folders that cannot be read hold nothing for us.
void append_package_folders(std::vector<fs::path>& folders, const fs::path& lib) {
  std::vector<std::pair<int, fs::path>> versions;
  std::error_code error;
  for (fs::directory_iterator it(lib, error), end; !error && it != end; it.increment(error)) {
    const std::optional<int> minor = minor_version_of_python(it->path().filename().string());
    if (minor) versions.emplace_back(*minor, it->path());
  }
  std::ranges::sort(versions, std::greater{});
  for (const auto& [minor, version] : versions) {
    folders.push_back(version / "site-packages");
    folders.push_back(version / "dist-packages");
  }
}

/// A folder of packages, or the plugin's own.
std::optional<fs::path> plugin_in(const fs::path& folder, std::string_view hardware) {
  for (const PackagedPlugin& plugin : kPlugins) {
    if (plugin.hardware != hardware) continue;
    std::error_code error;
    for (const fs::path& file : {folder / plugin.folder / plugin.file, folder / plugin.file}) {
      if (fs::is_regular_file(file, error)) return file;
    }
  }
  return std::nullopt;
}

fs::path configured_plugin(std::string_view hardware, const fs::path& configured) {
  std::error_code error;
  if (!fs::exists(configured, error)) fail_config("xla_plugin_path: {} does not exist", configured.string());
  if (!fs::is_directory(configured, error)) return configured;
  if (const std::optional<fs::path> found = plugin_in(configured, hardware)) return *found;
  fail_config("xla_plugin_path: {} holds no {} plugin; `scripts/install-xla {}` installs one where maxtext finds it",
              configured.string(), hardware, hardware);
}

}  // namespace

std::vector<fs::path> plugin_folders(std::string_view hardware) {
  check_hardware(hardware);
  std::vector<fs::path> folders = {installed_folder(hardware)};
  for (const char* prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const fs::path folder = from_environment(prefix); !folder.empty()) {
      append_package_folders(folders, folder / "lib");
    }
  }
  if (const fs::path home = from_environment("HOME"); !home.empty()) {
    append_package_folders(folders, home / ".local/lib");
  }
  append_package_folders(folders, "/usr/local/lib");
  append_package_folders(folders, "/usr/lib");
  std::erase_if(folders, [](const fs::path& folder) {
    std::error_code error;
    return folder.empty() || !fs::is_directory(folder, error);
  });
  return folders;
}

fs::path find_plugin(std::string_view hardware, const fs::path& configured) {
  check_hardware(hardware);
  if (!configured.empty()) return configured_plugin(hardware, configured);
  for (const fs::path& folder : plugin_folders(hardware)) {
    if (const std::optional<fs::path> found = plugin_in(folder, hardware)) return *found;
  }
  fail_config("no PJRT plugin for hardware={} is installed: run `scripts/install-xla {}`, or set xla_plugin_path",
              hardware, hardware);
}

}  // namespace maxtext
