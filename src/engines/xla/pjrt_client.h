// Compiles and runs StableHLO text with a PJRT plugin (OpenXLA's C interface), loaded at run time. Built without that
// interface's header, every call but `built_in` is an Error that says so.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/xla/compile_options.h"
#include "engines/xla/pjrt_options.h"
#include "tensor/shape.h"

namespace maxtext {

/// An array in a device's memory.
class PjrtBuffer {
 public:
  virtual ~PjrtBuffer() = default;

  virtual const TensorSpec& spec() const = 0;

  /// Copies it to the host and waits. Throws Error where the sizes differ, or with the plugin's words.
  virtual void read(std::span<std::byte> destination) const = 0;
};

/// A program on the devices of its client. Keeps the client alive.
class PjrtProgram {
 public:
  virtual ~PjrtProgram() = default;

  using Arguments = std::vector<const PjrtBuffer*>;
  using Results = std::vector<std::unique_ptr<PjrtBuffer>>;

  /// Runs once on all replicas and waits: arguments[replica] -> results[replica], whose specs are `results`. Arguments
  /// that the text donates (tf.aliasing_output) are used up: their buffers may only be destroyed.
  /// Waiting for every run is needed: programs with collectives that are queued on a CPU plugin starve its threads.
  /// Throws Error with the plugin's words.
  virtual std::vector<Results> run(const std::vector<Arguments>& arguments, const std::vector<TensorSpec>& results) = 0;

  /// What PjrtClient::load makes a program of, without compiling, with the same plugin on the same kind of devices.
  /// Throws Error with the plugin's words where it cannot.
  virtual std::string serialized() const = 0;
};

/// What a plugin says of itself.
struct PjrtDescription {
  std::string platform;
  /// The plugin's own words, with its build where it tells.
  std::string platform_version;
  /// "0.115".
  std::string api_version;
  /// "1.20.0"; empty where the plugin does not tell.
  std::string stablehlo_version;
  int devices = 0;
};

/// "cpu, PJRT API 0.115, StableHLO 1.20.0, 4 devices".
std::string to_string(const PjrtDescription& description);

class PjrtClient {
 public:
  /// Whether the C interface was there when this was built.
  static bool built_in();

  /// Loads the plugin, for the life of the process, and makes a client of it. Its log is left out, unless
  /// TF_CPP_MIN_LOG_LEVEL is set: what fails is an Error with the plugin's words. Throws Error where the file is no
  /// plugin, of another major version, older than what is called of it, or refuses; a GPU's or TPU's does without one.
  static std::unique_ptr<PjrtClient> open(const std::filesystem::path& plugin, const PjrtOptions& options);

  /// A client of a CPU plugin with so many virtual devices.
  static std::unique_ptr<PjrtClient> open(const std::filesystem::path& plugin, int cpu_devices) {
    return open(plugin, PjrtOptions{{"cpu_device_count", cpu_devices}});
  }

  virtual ~PjrtClient() = default;

  virtual const PjrtDescription& description() const = 0;

  /// Compiles a module. Throws ConfigError for more replicas than devices, Error with the compiler's words.
  virtual std::unique_ptr<PjrtProgram> compile(const std::string& module_text, const XlaCompileOptions& options) = 0;

  /// For `replicas` devices: replica i is addressable device i.
  std::unique_ptr<PjrtProgram> compile(const std::string& module_text, int replicas) {
    return compile(module_text, XlaCompileOptions{.replicas = replicas, .device_ids = {}, .flags = {}});
  }

  /// A program that was serialized by the same plugin. Throws Error with the plugin's words.
  virtual std::unique_ptr<PjrtProgram> load(std::string_view serialized) = 0;

  /// Copies row-major elements of `spec` to addressable device `device` (0, 1, …), and waits.
  virtual std::unique_ptr<PjrtBuffer> put(int device, const TensorSpec& spec, std::span<const std::byte> bytes) = 0;
};

}  // namespace maxtext
