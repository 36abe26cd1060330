// One collective between processes, as a state machine. Internal to the MPI transport; included by its .cc files only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mesh/transport.h"

namespace maxtext {

/// A sub-communicator and the number of its next collective.
struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> members;
  int rank = 0;
  std::int64_t next = 0;
};

/// Throws Error with MPI's own message when `code` is an error.
void check_mpi(int code, const char* call);

/// Where there is one buffer, user memory is sent and received in place; several are packed into one message per peer.
/// An exchange gives each peer either everything of mine (all_gather, short all_reduce) or the part that it will reduce
/// (reduce_scatter, long all_reduce). A second exchange of a long all_reduce gives everybody my reduced slice.
class MpiOperation {
 public:
  /// Posts the messages of the first exchange. `tag_limit` is MPI's largest tag.
  MpiOperation(CollectiveRequest request, MpiGroup& group, const TransportOptions& options, int tag_limit);

  /// Moves on as far as possible without waiting; true when complete.
  bool progress();
  bool done() const { return done_; }
  const CollectiveRequest& request() const { return request_; }

  /// "1, 3": the devices whose messages have not come.
  std::string absent_devices();
  /// Gives up: nothing more is written to the receive memory.
  void cancel();

 private:
  using Memory = std::unique_ptr<std::byte[]>;
  using Step = void (MpiOperation::*)();
  template <typename Byte>
  struct Run {
    Byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  /// What goes to, and comes from, each rank; the entries of this rank are ignored.
  using Sends = std::vector<Run<const std::byte>>;
  using Receives = std::vector<Run<std::byte>>;

  bool packed() const { return request_.buffers.size() > 1; }
  std::int64_t total_bytes() const { return total_ * element_; }
  std::int64_t slice_begin(int rank) const;
  std::int64_t slice_bytes(int rank) const { return slice_begin(rank + 1) - slice_begin(rank); }

  void start();
  void start_barrier();
  void start_gather();
  void start_scatter();
  void start_short_all_reduce();
  void start_long_all_reduce();
  void finish_gather();
  void finish_scatter();
  void share_reduced_slice();
  void finish_long_all_reduce();
  void complete();

  /// Posts messages; `next` runs when all have come and gone.
  void exchange(const Sends& sends, const Receives& receives, Step next);
  void add_receives(const Run<std::byte>& run, int peer, int tag);
  void add_sends(const Run<const std::byte>& run, int peer, int tag);
  std::int64_t message_bytes(std::int64_t left) const;

  /// The send memory as one run: the only buffer, or a packed copy.
  const std::byte* pack_whole();
  void unpack(const std::byte* source);
  /// Reduces each buffer from packed sources of this rank's size.
  void reduce_buffers(const std::vector<const std::byte*>& sources);

  CollectiveRequest request_;
  MpiGroup& group_;
  const TransportOptions& options_;
  int tag_limit_;
  std::int64_t number_;
  int phase_ = 0;
  bool done_ = false;
  Step next_ = nullptr;

  int size_;
  int rank_;
  std::int64_t element_;    ///< bytes of one element
  std::int64_t total_ = 0;  ///< elements of all buffers, per rank

  const std::byte* own_ = nullptr;  ///< what this rank contributes to its own result
  std::byte* reduced_ = nullptr;    ///< the whole result of a long all_reduce
  Memory send_staging_;
  Memory receive_staging_;
  Memory result_staging_;
  std::vector<MPI_Request> requests_;
  std::vector<int> sources_;  ///< for each request the rank it receives from, or -1 for a send
};

}  // namespace maxtext
