// The devices of this process as the replicas of compiled programs: each device traces on a thread of its own, and a
// run is where they meet.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engines/xla/xla_backend.h"

namespace maxtext {

struct XlaRuntimeOptions {
  /// Where the text of each program is written before it is compiled, as program_000.mlir and so on; nowhere if empty.
  std::filesystem::path dump_to;
  XlaFlags flags;
  /// How long a device waits for the others to come before it throws.
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};
};

class XlaRuntime final : public XlaBackend {
 public:
  /// `devices` of the mesh, all of it, are the client's devices in their order. To be made before any thread is bound
  /// to cores.
  XlaRuntime(std::unique_ptr<PjrtClient> client, int devices, XlaRuntimeOptions options = {});

  std::shared_ptr<const PjrtBuffer> put(int device, const TensorSpec& spec, std::span<const std::byte> bytes) override;
  std::vector<std::shared_ptr<const PjrtBuffer>> run(int device, const XlaProgram& program) override;
  void join(int device) override;
  void leave(int device) noexcept override;

  /// Programs that were compiled so far, and the seconds that it took.
  int compiled_programs() const;
  double compile_seconds() const;

 private:
  /// A device that has left the round of `device`, or −1.
  int missing_in_round_of(std::size_t device) const;
  void check_same_program() const;
  void run_all();
  PjrtProgram& compiled(const XlaProgram& program);
  void dump(const std::string& text) const;

  std::unique_ptr<PjrtClient> client_;
  XlaRuntimeOptions options_;
  std::vector<int> cores_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<PjrtProgram>> programs_;
  double compile_seconds_ = 0;

  // Of the run under way.
  std::vector<const XlaProgram*> given_;
  std::vector<std::vector<std::shared_ptr<const PjrtBuffer>>> results_;
  std::size_t arrived_ = 0;
  std::uint64_t runs_ = 0;
  std::exception_ptr failure_;

  /// Engines that each device has had, and those of them that are gone.
  std::vector<int> joined_;
  std::vector<int> left_;
};

}  // namespace maxtext
