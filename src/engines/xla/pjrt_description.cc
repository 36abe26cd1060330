#include "engines/xla/pjrt_client.h"

#include <fmt/format.h>

namespace maxtext {

std::string to_string(const PjrtDescription& description) {
  std::string text = fmt::format("{}, PJRT API {}", description.platform, description.api_version);
  if (!description.stablehlo_version.empty()) text.append(", StableHLO ").append(description.stablehlo_version);
  return text.append(fmt::format(", {} {}", description.devices, description.devices == 1 ? "device" : "devices"));
}

}  // namespace maxtext
