// Compiles and runs StableHLO text with a PJRT plugin (OpenXLA's C interface), loaded at run time. Built without that
// interface's header, every call but `built_in` is an Error that says so.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
};

class PjrtClient {
 public:
  /// Whether the C interface was there when this was built.
  static bool built_in();

  /// Loads the plugin, for the life of the process, and makes a client with `cpu_devices` virtual devices. Throws Error
  /// where the file is no plugin or the plugin refuses.
  static std::unique_ptr<PjrtClient> open(const std::filesystem::path& plugin, int cpu_devices);

  virtual ~PjrtClient() = default;

  /// Compiles a module for `replicas` devices, one partition: replica i is addressable device i. Throws Error with the
  /// compiler's words.
  virtual std::unique_ptr<PjrtProgram> compile(const std::string& module_text, int replicas) = 0;

  /// Copies row-major elements of `spec` to addressable device `device` (0, 1, …), and waits.
  virtual std::unique_ptr<PjrtBuffer> put(int device, const TensorSpec& spec, std::span<const std::byte> bytes) = 0;
};

}  // namespace maxtext
