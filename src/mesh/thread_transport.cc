#include "mesh/thread_transport.h"

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "mesh/thread_rendezvous.h"

namespace maxtext {
namespace {

/// What the members of one group share.
struct Group {
  explicit Group(std::vector<int> devices) : members(std::move(devices)), next(members.size(), 0) {}

  std::vector<int> members;
  /// Per rank, the number of the next collective and of the next shared allocation.
  std::vector<std::int64_t> next;
  /// What some members have started and others have not.
  std::map<std::int64_t, std::shared_ptr<Rendezvous>> open;
  struct OpenAllocation {
    std::shared_ptr<std::byte[]> base;
    std::int64_t bytes_per_rank = 0;
    std::size_t taken = 0;
  };
  std::map<std::int64_t, OpenAllocation> allocations;
  std::condition_variable changed;
};

std::vector<int> all_devices(const Mesh& mesh) {
  std::vector<int> devices(static_cast<std::size_t>(mesh.device_count()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

}  // namespace

/// One mutex guards everything: it is held for well under a microsecond, never while memory is copied or summed.
struct ThreadTransportState {
  ThreadTransportState(Mesh mesh_value, TransportOptions options_value)
      : mesh(mesh_value), options(options_value), devices(all_devices(mesh)) {}

  /// With the mutex held.
  Group& group(int device, AxisSet axes);
  void set_failure(int device, const std::string& reason);
  void throw_if_failed() const {
    if (failure) throw PeerFailure(*failure);
  }

  const Mesh mesh;
  const TransportOptions options;
  const std::vector<int> devices;
  std::mutex mutex;
  std::map<std::vector<int>, Group> groups;
  std::optional<std::string> failure;
};

Group& ThreadTransportState::group(int device, AxisSet axes) {
  // Different axes may name the same devices; a common order of their collectives is then required anyway.
  std::vector<int> members = mesh.group(device, axes);
  const auto found = groups.find(members);
  if (found != groups.end()) return found->second;
  return groups.try_emplace(members, members).first->second;
}

void ThreadTransportState::set_failure(int device, const std::string& reason) {
  if (!failure) failure = failure_text(device, reason);
  for (auto& entry : groups) entry.second.changed.notify_all();
}

namespace {

class ThreadPending final : public PendingCollective {
 public:
  ThreadPending(std::shared_ptr<ThreadTransportState> state, Group& group, std::shared_ptr<Rendezvous> rendezvous,
                int rank)
      : state_(std::move(state)), group_(group), rendezvous_(std::move(rendezvous)), rank_(rank) {}
  ~ThreadPending() override;

  void wait() override;

 private:
  void complete();
  void await_posts(std::unique_lock<std::mutex>& lock);
  void run_tasks(std::unique_lock<std::mutex>& lock);
  [[noreturn]] void give_up(std::unique_lock<std::mutex>& lock);
  void throw_failure(std::unique_lock<std::mutex>& lock);
  int device() const { return group_.members[static_cast<std::size_t>(rank_)]; }

  std::shared_ptr<ThreadTransportState> state_;
  Group& group_;
  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  bool done_ = false;
  std::exception_ptr error_;
};

ThreadPending::~ThreadPending() {
  if (done_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    const std::lock_guard lock(state_->mutex);
    state_->set_failure(device(), "an exception ended it during " + describe(rendezvous_->request(rank_)));
  }
  try {
    wait();
  } catch (const Error&) {
    // Nobody asked for the result, and whoever waits for anything else gets the same error.
  }
}

void ThreadPending::wait() {
  if (error_) std::rethrow_exception(error_);
  if (done_) return;
  done_ = true;
  try {
    complete();
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
}

void ThreadPending::complete() {
  {
    std::unique_lock lock(state_->mutex);
    await_posts(lock);
    run_tasks(lock);
  }
  rendezvous_->deliver(rank_);
  std::vector<std::shared_ptr<void>> released;
  const std::lock_guard lock(state_->mutex);
  rendezvous_->leave(rank_);
  released = rendezvous_->take_released();
}

void ThreadPending::await_posts(std::unique_lock<std::mutex>& lock) {
  const auto deadline = std::chrono::steady_clock::now() + state_->options.timeout;
  while (true) {
    throw_failure(lock);
    if (rendezvous_->all_posted()) return;
    if (std::chrono::steady_clock::now() >= deadline) give_up(lock);
    group_.changed.wait_until(lock, deadline);
  }
}

void ThreadPending::run_tasks(std::unique_lock<std::mutex>& lock) {
  while (true) {
    throw_failure(lock);
    if (rendezvous_->complete(rank_)) return;
    const std::optional<int> task = rendezvous_->claim(rank_, rendezvous_->needs_others(rank_));
    if (!task) {
      // Somebody is running what is left.
      group_.changed.wait(lock);
      continue;
    }
    lock.unlock();
    rendezvous_->run(*task);
    lock.lock();
    rendezvous_->finish_task(*task);
    if (group_.members.size() > 1) group_.changed.notify_all();
    std::vector<std::shared_ptr<void>> released = rendezvous_->take_released();
    if (released.empty()) continue;
    lock.unlock();
    released.clear();
    lock.lock();
  }
}

void ThreadPending::give_up(std::unique_lock<std::mutex>& lock) {
  const std::string reason = fmt::format("{} waited {} ms for devices {}", describe(rendezvous_->request(rank_)),
                                         state_->options.timeout.count(), rendezvous_->absent_devices());
  state_->set_failure(device(), reason);
  lock.unlock();
  fail("device {}: {}", device(), reason);
}

void ThreadPending::throw_failure(std::unique_lock<std::mutex>& lock) {
  if (!state_->failure) return;
  // The caller frees its memory after the throw: whoever is reading it must be done.
  group_.changed.wait(lock, [this] { return !rendezvous_->running(); });
  state_->throw_if_failed();
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadTransportState> state, int device)
      : state_(std::move(state)), device_(device) {}

  const Mesh& mesh() const override { return state_->mesh; }
  int device() const override { return device_; }
  std::unique_ptr<PendingCollective> start(CollectiveRequest request) override;
  void abort(const std::string& reason) override {
    const std::lock_guard lock(state_->mutex);
    state_->set_failure(device_, reason);
  }
  const CollectiveCounters& counters() const override { return counters_; }
  bool shares_memory() const override { return true; }
  GroupMemory allocate_shared(AxisSet axes, std::int64_t bytes_per_rank) override;

 private:
  std::unique_ptr<PendingCollective> start_in_group(CollectiveRequest request, int rank);

  std::shared_ptr<ThreadTransportState> state_;
  int device_;
  CollectiveCounters counters_;
};

std::unique_ptr<PendingCollective> ThreadCommunicator::start(CollectiveRequest request) {
  const int size = mesh().size(request.axes);
  const int rank = mesh().group_rank(device_, request.axes);
  check_request(request, size, rank);
  CollectiveCounters::Entry& counter = counters_.of(request.kind);
  ++counter.calls;
  counter.bytes += logical_bytes(request, size);
  if (size > 1) return start_in_group(std::move(request), rank);
  {
    const std::lock_guard lock(state_->mutex);
    state_->throw_if_failed();
  }
  copy_to_self(request);
  return std::make_unique<CompletedCollective>();
}

std::unique_ptr<PendingCollective> ThreadCommunicator::start_in_group(CollectiveRequest request, int rank) {
  const std::lock_guard lock(state_->mutex);
  state_->throw_if_failed();
  Group& group = state_->group(device_, request.axes);
  const std::int64_t number = group.next[static_cast<std::size_t>(rank)]++;
  std::shared_ptr<Rendezvous>& slot = group.open[number];
  if (slot == nullptr) slot = std::make_shared<Rendezvous>(group.members, request.kind);
  const std::shared_ptr<Rendezvous> rendezvous = slot;
  try {
    rendezvous->post(rank, std::move(request));
  } catch (const Error& error) {
    state_->set_failure(device_, error.what());
    throw;
  }
  if (rendezvous->all_posted()) {
    group.open.erase(number);
    group.changed.notify_all();
  }
  return std::make_unique<ThreadPending>(state_, group, rendezvous, rank);
}

GroupMemory ThreadCommunicator::allocate_shared(AxisSet axes, std::int64_t bytes_per_rank) {
  const int rank = mesh().group_rank(device_, axes);
  const std::lock_guard lock(state_->mutex);
  state_->throw_if_failed();
  Group& group = state_->group(device_, axes);
  const std::int64_t number = group.next[static_cast<std::size_t>(rank)]++;
  Group::OpenAllocation& open = group.allocations[number];
  if (open.base == nullptr) {
    open.base = allocate_private(static_cast<int>(group.members.size()), rank, bytes_per_rank).base;
    open.bytes_per_rank = bytes_per_rank;
  } else if (open.bytes_per_rank != bytes_per_rank) {
    const std::string reason =
        fmt::format("asked for {} bytes of shared memory over {} where another device of the group asked for {}",
                    bytes_per_rank, to_string(axes), open.bytes_per_rank);
    state_->set_failure(device_, reason);
    fail("device {} {}", device_, reason);
  }
  GroupMemory memory{open.base, open.base.get() + rank * bytes_per_rank};
  if (++open.taken == group.members.size()) group.allocations.erase(number);
  return memory;
}

}  // namespace

ThreadTransport::ThreadTransport(Mesh mesh, TransportOptions options)
    : state_(std::make_shared<ThreadTransportState>(mesh, options)) {}

const Mesh& ThreadTransport::mesh() const { return state_->mesh; }

const std::vector<int>& ThreadTransport::local_devices() const { return state_->devices; }

std::unique_ptr<Communicator> ThreadTransport::communicator(int device) {
  if (device < 0 || device >= state_->mesh.device_count()) {
    fail("device {} is not one of the {} devices of the mesh", device, state_->mesh.device_count());
  }
  return std::make_unique<ThreadCommunicator>(state_, device);
}

void ThreadTransport::abort(int device, const std::string& reason) {
  const std::lock_guard lock(state_->mutex);
  state_->set_failure(device, reason);
}

}  // namespace maxtext
