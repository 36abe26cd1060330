// One collective between the threads of a process: who has come, and the work that is left. Internal to the thread
// transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mesh/communicator.h"

namespace maxtext {

/// All memory is shared, so the work of a collective is cut into one task per member which any thread may run once
/// all have posted: task r fills the receive buffers of rank r (all_gather, reduce_scatter) or sums the r-th slice into
/// a temporary, from which each member then copies (all_reduce: nobody overwrites what a peer still reads, and no sum
/// is taken twice). A member that has to wait for the others' tasks runs them itself, so no order of waits can
/// deadlock. Calls are made under the transport's mutex, except where noted.
class Rendezvous {
 public:
  Rendezvous(std::vector<int> members, CollectiveKind kind);

  /// Throws Error when `request` is not the collective that an earlier member has posted.
  void post(int rank, CollectiveRequest request);
  bool all_posted() const { return posted_count_ == members_.size(); }
  /// "1, 3": the devices that have not posted.
  std::string absent_devices() const;
  const CollectiveRequest& request(int rank) const { return posts_[static_cast<std::size_t>(rank)].request; }

  /// An open task, the own one if it is; it now belongs to the caller, who must `run` it and then call `finish_task`.
  std::optional<int> claim(int rank, bool of_others);
  void finish_task(int task);
  bool task_done(int rank) const { return tasks_[static_cast<std::size_t>(rank)] == TaskState::done; }
  bool all_tasks_done() const { return done_count_ == members_.size(); }
  bool running() const { return running_count_ > 0; }

  /// Whether `wait` of `rank` has nothing left to do but `deliver`.
  bool complete(int rank) const { return needs_others(rank) ? all_tasks_done() : task_done(rank); }
  /// Whether `rank` depends on the tasks of others: their sums, or their reading of its send memory.
  bool needs_others(int rank) const;

  /// `rank` has returned from its wait.
  void leave(int rank) { posts_[static_cast<std::size_t>(rank)].left = true; }
  /// Takes the keepalives that are no longer needed. They are to be destroyed without the mutex.
  std::vector<std::shared_ptr<void>> take_released();

  /// Without the mutex: the work of a claimed task, and the copy out of all_reduce's temporary once complete.
  void run(int task);
  void deliver(int rank) const;

 private:
  enum class TaskState { open, running, done };
  struct Post {
    CollectiveRequest request;
    bool posted = false;
    bool left = false;
  };

  void check_same(int rank, const CollectiveRequest& request) const;
  void gather(int task) const;
  void reduce_scatter(int task) const;
  void reduce_slice(int task);

  std::vector<int> members_;
  CollectiveKind kind_;
  std::vector<Post> posts_;
  std::vector<TaskState> tasks_;
  std::size_t posted_count_ = 0;
  std::size_t done_count_ = 0;
  int running_count_ = 0;
  /// The result of all_reduce, its buffers one after the other.
  std::unique_ptr<std::byte[]> reduced_;
};

}  // namespace maxtext
