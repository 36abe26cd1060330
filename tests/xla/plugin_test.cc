// Where plugins are looked for, with files in their places that are none.
#include "engines/xla/plugin.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "data/temporary_folder.h"
#include "xla/error_of.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;

/// Sets what decides where plugins are, and puts it back.
class FindPlugin : public FolderTest {
 protected:
  FindPlugin() {
    for (Variable& variable : variables_) {
      if (const char* value = std::getenv(variable.name)) variable.value = value;
      ::unsetenv(variable.name);
    }
    ::setenv("HOME", (folder_ / "home").c_str(), 1);
  }
  ~FindPlugin() override {
    for (const Variable& variable : variables_) {
      if (variable.value) {
        ::setenv(variable.name, variable.value->c_str(), 1);
      } else {
        ::unsetenv(variable.name);
      }
    }
  }

  void set(const char* name, const fs::path& folder) { ::setenv(name, (folder_ / folder).c_str(), 1); }

 private:
  struct Variable {
    const char* name;
    std::optional<std::string> value;
  };
  std::vector<Variable> variables_ = {
      {"HOME", {}}, {"XDG_DATA_HOME", {}}, {"MAXTEXT_XLA_DIR", {}}, {"VIRTUAL_ENV", {}}, {"CONDA_PREFIX", {}}};
};

TEST_F(FindPlugin, EachPlaceHidesThoseAfterIt) {
  // From the last to the first that is looked at.
  const std::string in_packages = "libtpu/libtpu.so";
  const fs::path user = write("home/.local/lib/python3.9/site-packages/" + in_packages, "");
  EXPECT_EQ(find_plugin("tpu", {}), user);
  const fs::path newer = write("home/.local/lib/python3.12/site-packages/" + in_packages, "");
  EXPECT_EQ(find_plugin("tpu", {}), newer);
  const fs::path conda = write("conda/lib/python3.10/site-packages/" + in_packages, "");
  set("CONDA_PREFIX", "conda");
  EXPECT_EQ(find_plugin("tpu", {}), conda);
  const fs::path environment = write("venv/lib/python3.10/site-packages/" + in_packages, "");
  set("VIRTUAL_ENV", "venv");
  EXPECT_EQ(find_plugin("tpu", {}), environment);
  const fs::path shared = write("home/.local/share/maxtext/xla/tpu/" + in_packages, "");
  EXPECT_EQ(find_plugin("tpu", {}), shared);
  const fs::path data = write("data/maxtext/xla/tpu/" + in_packages, "");
  set("XDG_DATA_HOME", "data");
  EXPECT_EQ(find_plugin("tpu", {}), data);
  const fs::path own = write("own/tpu/" + in_packages, "");
  set("MAXTEXT_XLA_DIR", "own");
  EXPECT_EQ(find_plugin("tpu", {}), own);
  const fs::path configured = write("elsewhere/a_plugin.so", "");
  EXPECT_EQ(find_plugin("tpu", configured), configured);
}

TEST_F(FindPlugin, KindsOfHardwareHaveTheirOwnPlugins) {
  set("MAXTEXT_XLA_DIR", "own");
  const fs::path cpu = write("own/cpu/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "");
  const fs::path gpu = write("own/gpu/jax_plugins/xla_cuda13/xla_cuda_plugin.so", "");
  EXPECT_EQ(find_plugin("cpu", {}), cpu);
  EXPECT_EQ(find_plugin("gpu", {}), gpu);
}

TEST_F(FindPlugin, AFolderOfPackagesOrThePluginsOwnMayBeConfigured) {
  const fs::path file = write("packages/libtpu/libtpu.so", "");
  EXPECT_EQ(find_plugin("tpu", folder_ / "packages"), file);
  EXPECT_EQ(find_plugin("tpu", folder_ / "packages/libtpu"), file);
}

TEST_F(FindPlugin, WhatIsMissingIsNamedWithTheCommandThatInstallsIt) {
  // A system's own packages may have one.
  if (plugin_folders("gpu").empty()) {
    EXPECT_EQ(error_of([] { find_plugin("gpu", {}); }),
              "no PJRT plugin for hardware=gpu is installed: run `scripts/install-xla gpu`, or set xla_plugin_path");
  }
  const fs::path missing = folder_ / "missing.so";
  EXPECT_EQ(error_of([&] { find_plugin("cpu", missing); }),
            fmt::format("xla_plugin_path: {} does not exist", missing.string()));
  write("empty/readme", "");
  EXPECT_EQ(error_of([&] { find_plugin("cpu", folder_ / "empty"); }),
            fmt::format("xla_plugin_path: {} holds no cpu plugin; `scripts/install-xla cpu` installs one where maxtext "
                        "finds it",
                        (folder_ / "empty").string()));
  EXPECT_EQ(error_of([] { find_plugin("abacus", {}); }), "hardware=abacus: expected cpu, tpu or gpu");
  EXPECT_THROW(find_plugin("cpu", missing), ConfigError);
}

}  // namespace
}  // namespace maxtext::testing
