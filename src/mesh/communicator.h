// Collectives over raw memory between the devices of a mesh. The engine of a device owns one communicator; transports
// (threads of one process, processes under MPI, wrappers used by tests) implement it. Results are bitwise the same on
// every transport, because every sum is taken in ascending group rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "mesh/mesh.h"

namespace maxtext {

enum class CollectiveKind { all_gather, reduce_scatter, all_reduce, barrier };
/// A NaN wins in `max`, so that a non-finite value cannot hide behind a larger one.
enum class ReduceOp { sum, max };
/// `bytes` can be gathered only.
enum class ElementType { bytes, float32, float64 };

std::string_view collective_name(CollectiveKind kind);

/// Bytes of one element.
std::int64_t element_size(ElementType element);

/// Thrown by `start` and `wait` because another device failed: "device 3 failed: disk full". A consequence, never the
/// cause: whoever collects the exceptions of several devices reports another one if there is one.
class PeerFailure : public Error {
 public:
  using Error::Error;
};

/// One buffer of a coalesced collective. With P = group size and n = `count` elements per rank:
/// all_gather: send n, receive P·n (in group-rank order); reduce_scatter: send P·n, receive n;
/// all_reduce: send n, receive n.
/// Memory may overlap in two cases only: all_gather with `send` = the own part of `receive`, all_reduce with
/// `receive` = `send`.
struct CollectiveBuffer {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::int64_t count = 0;
};

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::barrier;
  AxisSet axes = {};
  ElementType element = ElementType::bytes;
  ReduceOp reduce = ReduceOp::sum;
  std::vector<CollectiveBuffer> buffers = {};
  /// Keeps memory alive until every member has finished with it; released on any member's thread. With a keepalive
  /// the caller promises not to write to `send` until then, and `wait` returns as soon as the own receive buffers are
  /// filled. Without one `wait` returns only after every peer has read `send`, which may be reused at once.
  /// An object that owns the handle of this collective must not be among them: it would keep itself alive.
  std::vector<std::shared_ptr<void>> keepalive = {};
  /// What the watchdog names when it gives up: op, shape.
  std::string label = {};
};

/// A collective under way. `wait` returns once this device's receive buffers are filled; handles may be waited for in
/// any order. It throws PeerFailure when a device failed, and Error when the watchdog's time ran out, naming the
/// collective and the devices that have not come. Waiting twice is allowed. Destroying an unwaited handle completes it
/// first; when it is destroyed by a passing exception it fails this device instead, since the others would wait for it.
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
/// Coalesced buffers count as one.
std::int64_t logical_bytes(const CollectiveRequest& request, int group_size);

/// `all_gather over context (keys of layer 3)`, for messages.
std::string describe(const CollectiveRequest& request);

/// "device 3 failed: disk full". A reason that says "device 3: disk full" already does not get the number twice.
std::string failure_text(int device, std::string_view reason);

/// Throws Error when `request` cannot be right in a group of `group_size` as seen by its member `rank`: a negative
/// count, missing memory, overlapping memory, a sum of bytes.
void check_request(const CollectiveRequest& request, int group_size, int rank);

/// The collective of a group of one: copies send to receive where they differ.
void copy_to_self(const CollectiveRequest& request);

/// A handle of something that is already complete.
class CompletedCollective final : public PendingCollective {
 public:
  void wait() override {}
};

/// Memory of a whole group: `base` holds P·bytes_per_rank bytes, in the order of group ranks, and `mine` is this
/// rank's part of it.
struct GroupMemory {
  std::shared_ptr<std::byte[]> base;
  std::byte* mine = nullptr;
};

/// GroupMemory that no other device sees.
GroupMemory allocate_private(int group_size, int rank, std::int64_t bytes_per_rank);

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

  /// Whether the parts of `allocate_shared` are one memory for all members.
  virtual bool shares_memory() const { return false; }

  /// Uninitialised memory, aligned to 64 bytes, for zero-copy gathering. It is a collective in the group's order but
  /// does not wait. An all_gather with `send = mine` and `receive = base` is right on every transport; on one that
  /// shares memory it moves nothing, it only waits until every member has written its part. There, peers go on reading
  /// `mine` after the gather: before writing to it again a member must know that they are done, by any later
  /// collective of the group that they start after their last read.
  virtual GroupMemory allocate_shared(AxisSet axes, std::int64_t bytes_per_rank) {
    return allocate_private(mesh().size(axes), mesh().group_rank(device(), axes), bytes_per_rank);
  }
};

}  // namespace maxtext
