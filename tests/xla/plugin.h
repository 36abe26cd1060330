// The PJRT plugins that tests run on, where there are any.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engines/xla/pjrt_client.h"
#include "engines/xla/plugin.h"

namespace maxtext::testing {

inline std::filesystem::path plugin_path(std::string_view hardware = "cpu") { return find_plugin(hardware, {}); }

/// Why tests cannot run on a plugin; empty when they can.
inline std::string why_no_plugin(std::string_view hardware = "cpu") {
  if (!PjrtClient::built_in()) {
    return "built without the header of the PJRT C interface (scripts/install-xla header, then configure again) or "
           "with "
           "sanitizers";
  }
  try {
    plugin_path(hardware);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace maxtext::testing
