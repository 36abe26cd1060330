// What carries collectives: the devices of a mesh that live in this process, and a communicator for each.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "mesh/communicator.h"

namespace maxtext {

struct TransportOptions {
  /// The watchdog: how long one `wait` may last before it throws.
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};
  /// MPI counts are 32-bit: longer messages are split into parts of at most this many bytes.
  std::int64_t max_message_bytes = std::numeric_limits<std::int32_t>::max();
  /// MPI: an all_reduce of at most this many bytes is one exchange of everything with everybody (P·n bytes, one
  /// latency); a longer one is a reduce_scatter and an all_gather (2·n bytes, two latencies).
  std::int64_t small_all_reduce_bytes = 16384;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const Mesh& mesh() const = 0;

  /// The devices that this process runs, ascending.
  virtual const std::vector<int>& local_devices() const = 0;

  /// The end of a local device; at most one at a time for each.
  virtual std::unique_ptr<Communicator> communicator(int device) = 0;

  /// Makes all waits of all devices throw PeerFailure("device D failed: reason"); under MPI it ends all processes
  /// instead. Any thread may call it; the first reason stays.
  virtual void abort(int device, const std::string& reason) = 0;
};

}  // namespace maxtext
