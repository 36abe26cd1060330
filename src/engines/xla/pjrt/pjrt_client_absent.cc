// In place of pjrt_client.cc where the header of the C interface was not found.
#include "base/error.h"
#include "engines/xla/pjrt_client.h"

namespace maxtext {

bool PjrtClient::built_in() { return false; }

std::unique_ptr<PjrtClient> PjrtClient::open(const std::filesystem::path& plugin, int /*cpu_devices*/) {
  fail(
      "PJRT plugin {} cannot be used: maxtext was built without pjrt_c_api.h (scripts/install_xla_spike, then "
      "configure again)",
      plugin.string());
}

}  // namespace maxtext
