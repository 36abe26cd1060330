#include "mesh/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "mesh/device_program.h"
#include "mesh/mpi_operation.h"

namespace maxtext {
namespace {

/// MPI as long as we need it.
class MpiEnvironment {
 public:
  MpiEnvironment() {
    int initialized = 0;
    MPI_Initialized(&initialized);
    int provided = MPI_THREAD_SINGLE;
    if (initialized != 0) {
      MPI_Query_thread(&provided);
    } else {
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
      ours_ = true;
    }
    if (provided >= MPI_THREAD_SERIALIZED) return;
    finalize();
    fail("MPI offers thread level {}; MPI_THREAD_SERIALIZED ({}) is needed", provided, MPI_THREAD_SERIALIZED);
  }
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  void finalize() {
    if (ours_) MPI_Finalize();
    ours_ = false;
  }

 private:
  bool ours_ = false;
};

TransportOptions check_options(TransportOptions options) {
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  if (options.max_message_bytes < 1 || options.max_message_bytes > kLargest) {
    fail("messages of at most {} bytes were asked for; MPI allows 1 to {}", options.max_message_bytes, kLargest);
  }
  return options;
}

}  // namespace

struct MpiState {
  MpiState(Mesh mesh_value, TransportOptions options_value);
  ~MpiState();
  MpiState(const MpiState&) = delete;
  MpiState& operator=(const MpiState&) = delete;

  void check_process_count();
  void make_groups();
  void find_machine();
  void share_cores(MPI_Comm machine);
  int device() const { return devices.front(); }
  MpiGroup& group(AxisSet axes) { return groups.at(mesh.group(device(), axes)); }
  /// Advances every collective under way.
  void progress();
  void throw_if_failed() const {
    if (failed) throw PeerFailure(fmt::format("device {} failed: an exception ended it earlier", device()));
  }

  const Mesh mesh;
  const TransportOptions options;
  MpiEnvironment environment;
  MPI_Comm world = MPI_COMM_NULL;
  std::vector<int> devices;
  std::map<std::vector<int>, MpiGroup> groups;
  std::vector<std::shared_ptr<MpiOperation>> under_way;
  int tag_limit = 32767;  // what the standard guarantees
  int index_on_machine = 0;
  int count_on_machine = 1;
  std::vector<int> cores;
  /// Set when a collective was given up: peers wait for us, so nothing collective may follow.
  bool failed = false;
  int exceptions_at_start = std::uncaught_exceptions();
};

MpiState::MpiState(Mesh mesh_value, TransportOptions options_value)
    : mesh(mesh_value), options(check_options(options_value)) {
  check_process_count();
  int rank = 0;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  devices = {rank};
  int* largest_tag = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(world, MPI_TAG_UB, static_cast<void*>(&largest_tag), &found), "MPI_Comm_get_attr");
  if (found != 0) tag_limit = *largest_tag;
  make_groups();
  find_machine();
}

MpiState::~MpiState() {
  if (failed || std::uncaught_exceptions() > exceptions_at_start) return;
  for (auto& entry : groups) {
    if (entry.second.comm != MPI_COMM_NULL) MPI_Comm_free(&entry.second.comm);
  }
  MPI_Comm_free(&world);
  environment.finalize();
}

void MpiState::check_process_count() {
  int processes = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size");
  if (processes == mesh.device_count()) return;
  // All processes come here, so finalizing cannot hang.
  environment.finalize();
  fail_config(
      "the mesh has {} devices but MPI runs {} processes; the product of the parallelism keys must be the "
      "number of processes",
      mesh.device_count(), processes);
}

void MpiState::make_groups() {
  for (unsigned bits = 0; bits < (1U << static_cast<unsigned>(kAxisCount)); ++bits) {
    AxisSet axes;
    for (int i = 0; i < kAxisCount; ++i) {
      const Axis axis = static_cast<Axis>(i);
      if ((bits >> static_cast<unsigned>(i) & 1U) != 0) axes = axes | axis;
    }
    std::vector<int> members = mesh.group(device(), axes);
    // Axes of size 1 add nothing; the same sets are skipped on all processes.
    if (members.size() == 1 || groups.contains(members)) continue;
    MpiGroup group;
    check_mpi(MPI_Comm_split(world, members.front(), device(), &group.comm), "MPI_Comm_split");
    group.rank = mesh.group_rank(device(), axes);
    group.members = members;
    groups.emplace(std::move(members), std::move(group));
  }
}

void MpiState::find_machine() {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, device(), MPI_INFO_NULL, &machine), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(machine, &index_on_machine), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(machine, &count_on_machine), "MPI_Comm_size");
  share_cores(machine);
  check_mpi(MPI_Comm_free(&machine), "MPI_Comm_free");
}

void MpiState::share_cores(MPI_Comm machine) {
  const std::vector<int> allowed = split_cores(1).front();
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const int core : allowed) hash = (hash ^ static_cast<std::uint32_t>(core)) * 16777619U;
  MPI_Comm sharers = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(machine, static_cast<int>(hash & 0x7fffffffU), device(), &sharers), "MPI_Comm_split");
  int index = 0;
  int count = 1;
  check_mpi(MPI_Comm_rank(sharers, &index), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(sharers, &count), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&sharers), "MPI_Comm_free");
  cores = split_cores(allowed, count)[static_cast<std::size_t>(index)];
}

void MpiState::progress() {
  for (const std::shared_ptr<MpiOperation>& operation : under_way) operation->progress();
  std::erase_if(under_way, [](const std::shared_ptr<MpiOperation>& operation) { return operation->done(); });
}

namespace {

/// Gives the core away while a peer is late: it may be the one that the peer needs.
class Backoff {
 public:
  void pause() {
    if (++rounds_ <= kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, kLongestSleep);
  }

 private:
  static constexpr int kYields = 100;
  static constexpr std::chrono::microseconds kLongestSleep{500};
  int rounds_ = 0;
  std::chrono::microseconds sleep_{10};
};

class MpiPending final : public PendingCollective {
 public:
  MpiPending(std::shared_ptr<MpiState> state, std::shared_ptr<MpiOperation> operation)
      : state_(std::move(state)), operation_(std::move(operation)) {}
  ~MpiPending() override;
  void wait() override;

 private:
  void complete();

  std::shared_ptr<MpiState> state_;
  std::shared_ptr<MpiOperation> operation_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::exception_ptr error_;
};

MpiPending::~MpiPending() {
  if (operation_->done() || error_) return;
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    state_->failed = true;
    operation_->cancel();
    return;
  }
  try {
    wait();
  } catch (const Error&) {
    // Nobody asked for the result, and whoever waits for anything else gets an error too.
  }
}

void MpiPending::wait() {
  if (error_) std::rethrow_exception(error_);
  try {
    complete();
  } catch (...) {
    error_ = std::current_exception();
    state_->failed = true;
    operation_->cancel();
    throw;
  }
}

void MpiPending::complete() {
  const auto deadline = std::chrono::steady_clock::now() + state_->options.timeout;
  Backoff backoff;
  while (!operation_->done()) {
    state_->throw_if_failed();
    state_->progress();
    if (operation_->done()) return;
    if (std::chrono::steady_clock::now() >= deadline) {
      fail("device {}: {} waited {} ms for devices {}", state_->device(), describe(operation_->request()),
           state_->options.timeout.count(), operation_->absent_devices());
    }
    backoff.pause();
  }
}

[[noreturn]] void end_all_processes(int device, const std::string& reason) {
  let_first_process_speak();
  const std::string line = failure_text(device, reason) + "\n";
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<MpiState> state) : state_(std::move(state)) {}

  const Mesh& mesh() const override { return state_->mesh; }
  int device() const override { return state_->device(); }
  std::unique_ptr<PendingCollective> start(CollectiveRequest request) override;
  void abort(const std::string& reason) override { end_all_processes(device(), reason); }
  const CollectiveCounters& counters() const override { return counters_; }

 private:
  std::shared_ptr<MpiState> state_;
  CollectiveCounters counters_;
};

std::unique_ptr<PendingCollective> MpiCommunicator::start(CollectiveRequest request) {
  const int size = mesh().size(request.axes);
  check_request(request, size, mesh().group_rank(device(), request.axes));
  state_->throw_if_failed();
  CollectiveCounters::Entry& counter = counters_.of(request.kind);
  ++counter.calls;
  counter.bytes += logical_bytes(request, size);
  if (size == 1) {
    copy_to_self(request);
    return std::make_unique<CompletedCollective>();
  }
  MpiGroup& group = state_->group(request.axes);
  auto operation = std::make_shared<MpiOperation>(std::move(request), group, state_->options, state_->tag_limit);
  state_->under_way.push_back(operation);
  state_->progress();
  return std::make_unique<MpiPending>(state_, std::move(operation));
}

/// The value of an environment variable; nothing when it is not set, no number or below `least`.
std::optional<int> number_from_environment(const char* name, int least) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const auto result = std::from_chars(text, text + std::strlen(text), number);
  if (result.ec != std::errc() || number < least) return std::nullopt;
  return number;
}

std::optional<int> launcher_count() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const std::optional<int> count = number_from_environment(name, 1)) return count;
  }
  // An interactive shell under srun is a step of one task, and no parallel program.
  const std::optional<int> tasks = number_from_environment("SLURM_STEP_NUM_TASKS", 1);
  return tasks && *tasks > 1 ? tasks : std::nullopt;
}

}  // namespace

MpiTransport::MpiTransport(Mesh mesh, TransportOptions options) : state_(std::make_shared<MpiState>(mesh, options)) {}

const Mesh& MpiTransport::mesh() const { return state_->mesh; }

const std::vector<int>& MpiTransport::local_devices() const { return state_->devices; }

std::unique_ptr<Communicator> MpiTransport::communicator(int device) {
  if (device != state_->device()) {
    fail("this process runs device {}, and has no communicator for device {}", state_->device(), device);
  }
  return std::make_unique<MpiCommunicator>(state_);
}

void MpiTransport::abort(int device, const std::string& reason) { end_all_processes(device, reason); }

int MpiTransport::index_on_machine() const { return state_->index_on_machine; }

int MpiTransport::count_on_machine() const { return state_->count_on_machine; }

const std::vector<int>& MpiTransport::cores() const { return state_->cores; }

bool launched_by_mpi() { return launcher_count().has_value(); }

int launched_process_count() { return launcher_count().value_or(1); }

int launched_process_index() {
  if (!launched_by_mpi()) return 0;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (const std::optional<int> index = number_from_environment(name, 0)) return *index;
  }
  return 0;
}

void let_first_process_speak() {
  if (launched_process_index() > 0) std::this_thread::sleep_for(std::chrono::seconds(3));
}

}  // namespace maxtext
