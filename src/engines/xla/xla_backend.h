// Where the programs of the xla engine run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engines/xla/pjrt_client.h"
#include "engines/xla/xla_trace.h"

namespace maxtext {

class XlaBackend {
 public:
  virtual ~XlaBackend() = default;

  /// An array in the memory of `device` of the mesh; without bytes, one of zeros.
  virtual std::shared_ptr<const PjrtBuffer> put(int device, const TensorSpec& spec,
                                                std::span<const std::byte> bytes) = 0;

  /// Runs `program` as the part of `device` and returns its results once all devices have run it: every device of the
  /// process calls it, on a thread of its own, with the same text. Throws Error where texts differ, or with the
  /// compiler's or device's words.
  virtual std::vector<std::shared_ptr<const PjrtBuffer>> run(int device, const XlaProgram& program) = 0;

  /// False where programs are compiled and not run: arrays have no contents then.
  virtual bool has_data() const { return true; }

  /// An engine of the device comes, or goes: where others of its round (each device's first engine, its second, and so
  /// on) wait for one that went, they throw PeerFailure.
  virtual void join(int /*device*/) {}
  virtual void leave(int /*device*/) noexcept {}
};

}  // namespace maxtext
