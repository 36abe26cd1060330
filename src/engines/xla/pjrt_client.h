// Compiles and runs StableHLO text with a PJRT plugin (OpenXLA's C interface), loaded at run time. Built without that
// interface's header, every call but `built_in` is an Error that says so.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engines/xla/host_array.h"

namespace maxtext {

/// A program on the devices of its client. Keeps the client alive.
class PjrtProgram {
 public:
  virtual ~PjrtProgram() = default;

  /// Runs once on all replicas and waits: arguments[replica][argument] -> results[replica][result], whose specs are
  /// `results`. Waiting for every run is needed: programs with collectives that are queued on a CPU plugin starve its
  /// threads. Throws Error with the plugin's words.
  virtual std::vector<std::vector<HostArray>> run(const std::vector<std::vector<HostArray>>& arguments,
                                                  const std::vector<TensorSpec>& results) = 0;
};

class PjrtClient {
 public:
  /// Whether the C interface was there when this was built.
  static bool built_in();

  /// Loads the plugin, for the life of the process, and makes a client with `cpu_devices` virtual devices. Throws Error
  /// where the file is no plugin or the plugin refuses.
  static std::unique_ptr<PjrtClient> open(const std::filesystem::path& plugin, int cpu_devices);

  virtual ~PjrtClient() = default;

  /// Compiles a module for `replicas` devices, one partition. Throws Error with the compiler's words.
  virtual std::unique_ptr<PjrtProgram> compile(const std::string& module_text, int replicas) = 0;
};

}  // namespace maxtext
