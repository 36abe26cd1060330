// XLA's CompileOptionsProto, the few fields that are needed, in protobuf's wire format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace maxtext {

/// By XLA's names without dashes ("xla_gpu_enable_triton_gemm"). The compiler refuses names that it does not know and
/// values of another kind than its flag's.
using XlaFlags = std::map<std::string, std::variant<bool, std::int64_t, double, std::string>>;

struct XlaCompileOptions {
  /// Devices with one partition each.
  int replicas = 1;
  /// Replica i runs on the device of this id; empty: on the i-th in the order of ids.
  std::vector<std::int64_t> device_ids;
  XlaFlags flags;
};

/// Throws Error for fewer than one replica, which would abort the process inside a plugin, and where there is not one
/// device id for each replica.
std::string serialize(const XlaCompileOptions& options);

}  // namespace maxtext
