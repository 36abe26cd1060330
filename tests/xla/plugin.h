// The PJRT plugin that tests run on, where there is one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engines/xla/pjrt_client.h"

namespace maxtext::testing {

/// MAXTEXT_XLA_PLUGIN, or where scripts/install_xla_spike puts it.
inline std::filesystem::path plugin_path() {
  const char* path = std::getenv("MAXTEXT_XLA_PLUGIN");
  return path != nullptr && *path != '\0' ? path : MAXTEXT_DEFAULT_XLA_PLUGIN;
}

/// Why tests cannot run on a plugin; empty when they can.
inline std::string why_no_plugin() {
  if (!PjrtClient::built_in()) {
    return "built without the header of the PJRT C interface (scripts/install_xla_spike, then configure again) or with "
           "sanitizers";
  }
  if (!std::filesystem::exists(plugin_path())) {
    return "no PJRT plugin at " + plugin_path().string() + " (scripts/install_xla_spike, or set MAXTEXT_XLA_PLUGIN)";
  }
  return {};
}

}  // namespace maxtext::testing
