// In place of the other files of this folder where the header of the C interface was not found.
#include "base/error.h"
#include "engines/xla/pjrt_client.h"
#include "engines/xla/pjrt_topology.h"

namespace maxtext {
namespace {

[[noreturn]] void fail_absent(const std::filesystem::path& plugin) {
  fail(
      "PJRT plugin {} cannot be used: maxtext was built without pjrt_c_api.h (`scripts/install-xla header`, then "
      "configure and build again)",
      plugin.string());
}

}  // namespace

bool PjrtClient::built_in() { return false; }

std::unique_ptr<PjrtClient> PjrtClient::open(const std::filesystem::path& plugin, const PjrtOptions& /*options*/) {
  fail_absent(plugin);
}

std::unique_ptr<PjrtTopology> PjrtTopology::open(const std::filesystem::path& plugin, const std::string& /*name*/,
                                                 const PjrtOptions& /*options*/) {
  fail_absent(plugin);
}

}  // namespace maxtext
