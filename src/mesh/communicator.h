// Collectives over raw memory between the devices of a mesh. The engine of a device owns one communicator; transports
// (threads of one process, processes under MPI, wrappers used by tests) implement it. Results are bitwise the same on
// every transport, because every sum is taken in ascending group rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mesh/mesh.h"

namespace maxtext {

enum class CollectiveKind { all_gather, reduce_scatter, all_reduce, barrier };
enum class ReduceOp { sum, max };
enum class ElementType { bytes, float32, float64 };

std::string_view collective_name(CollectiveKind kind);

/// One buffer of a coalesced collective. With P = group size and n = `count` elements per rank:
/// all_gather: send n, receive P·n (in group-rank order); reduce_scatter: send P·n, receive n;
/// all_reduce: send n, receive n (`receive` may equal `send`).
struct CollectiveBuffer {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::int64_t count = 0;
};

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::barrier;
  AxisSet axes;
  ElementType element = ElementType::bytes;
  ReduceOp reduce = ReduceOp::sum;
  std::vector<CollectiveBuffer> buffers;
  /// Keeps the send and receive memory alive until every member has finished with it.
  std::vector<std::shared_ptr<void>> keepalive;
  /// What the watchdog names when it gives up: op, shape.
  std::string label;
};

/// A collective under way. `wait` returns once this device's receive buffers are filled (and, for all_gather, reads
/// peers' memory until then); it throws Error when a peer failed or the watchdog's time ran out. Waiting twice is
/// allowed. Destroying an unwaited handle completes it first.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  virtual void wait() = 0;
};

/// Bytes and calls per kind, logical: what one device puts on the wire with an ideal algorithm —
/// all_gather and reduce_scatter (P-1)·n elements, all_reduce 2·(P-1)/P·n (rounded up), barrier 0.
struct CollectiveCounters {
  struct Entry {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
  };
  std::array<Entry, 4> by_kind{};
  Entry& of(CollectiveKind kind) { return by_kind[static_cast<std::size_t>(kind)]; }
  const Entry& of(CollectiveKind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
};

/// The logical bytes of `request` in a group of `group_size`.
std::int64_t logical_bytes(const CollectiveRequest& request, int group_size);

/// One device's end of the transport. Used by that device's thread only. All members of a group must start the same
/// collectives on it in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const Mesh& mesh() const = 0;
  virtual int device() const = 0;

  /// Starts a collective; a group of one completes at once (it copies send to receive where they differ).
  virtual std::unique_ptr<PendingCollective> start(CollectiveRequest request) = 0;

  /// Tells all peers that this device has failed, so that their waits throw `reason` (with this device's number)
  /// within a second instead of hanging.
  virtual void abort(const std::string& reason) = 0;

  virtual const CollectiveCounters& counters() const = 0;
};

}  // namespace maxtext
