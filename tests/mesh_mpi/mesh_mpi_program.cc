// One process of the tests under mpirun: mesh_mpi_program results|initialize|abort|watchdog|kill|wrong_mesh.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "mesh/collective_cases.h"
#include "mesh/delayed_communicator.h"
#include "mesh/device_program.h"
#include "mesh/mpi_transport.h"
#include "mesh/thread_transport.h"

namespace maxtext {
namespace {

using std::chrono::milliseconds;
using testing::all_axis_sets;
using testing::all_cases;
using testing::Bytes;
using testing::CaseRun;
using testing::CollectiveCase;

void run_on(Transport& transport, const std::function<void(Communicator&)>& program, const DelayOptions& delay = {}) {
  run_devices(
      transport.local_devices(),
      [&](int device) {
        std::unique_ptr<Communicator> communicator = transport.communicator(device);
        if (delay.delay.count() > 0) communicator = delayed_communicator(std::move(communicator), delay);
        program(*communicator);
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

std::vector<CollectiveCase> cases_of(const Mesh& mesh) {
  std::vector<CollectiveCase> cases;
  for (const AxisSet axes : all_axis_sets()) {
    // Repeating the sets that axes of size 1 make equal would add time only.
    if (mesh.size(axes) == 1 && !(axes == AxisSet())) continue;
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{0}, {1}, {7}, {9001}, {3, 0, 4099, 1}, {}}) {
      for (const CollectiveCase& c : all_cases(axes, counts)) cases.push_back(c);
    }
  }
  return cases;
}

/// All cases are in flight at once; half of the devices wait in the opposite order.
std::vector<std::unique_ptr<CaseRun>> run_all(Communicator& communicator, const std::vector<CollectiveCase>& cases) {
  std::vector<std::unique_ptr<CaseRun>> runs;
  for (const CollectiveCase& c : cases) {
    const bool in_place = c.kind == CollectiveKind::all_reduce && c.reduce == ReduceOp::sum;
    runs.push_back(std::make_unique<CaseRun>(communicator, c, in_place));
    runs.back()->start(communicator);
  }
  const bool backwards = communicator.device() % 2 == 1;
  for (std::size_t i = 0; i < runs.size(); ++i) runs[backwards ? runs.size() - 1 - i : i]->wait();
  return runs;
}

/// The results of `device` over threads of this process.
std::vector<std::unique_ptr<CaseRun>> run_over_threads(const Mesh& mesh, int wanted,
                                                       const std::vector<CollectiveCase>& cases) {
  ThreadTransport transport(mesh);
  std::vector<std::unique_ptr<CaseRun>> wanted_runs;
  run_on(transport, [&](Communicator& communicator) {
    std::vector<std::unique_ptr<CaseRun>> runs = run_all(communicator, cases);
    if (communicator.device() == wanted) wanted_runs = std::move(runs);
  });
  return wanted_runs;
}

void compare(const Mesh& mesh, const TransportOptions& options, const DelayOptions& delay) {
  const std::vector<CollectiveCase> cases = cases_of(mesh);
  MpiTransport transport(mesh, options);
  const int device = transport.local_devices().front();
  const auto expected = run_over_threads(mesh, device, cases);
  run_on(
      transport,
      [&](Communicator& communicator) {
        const auto found = run_all(communicator, cases);
        for (std::size_t i = 0; i < cases.size(); ++i) {
          for (std::size_t b = 0; b < cases[i].counts.size(); ++b) {
            if (found[i]->result(b) == expected[i]->result(b)) continue;
            fail("{} over {} of {} elements differs from the threads' in buffer {}", collective_name(cases[i].kind),
                 to_string(cases[i].axes), cases[i].counts[b], b);
          }
        }
      },
      delay);
}

void results() {
  int processes = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (launched_process_count() != processes || !launched_by_mpi()) fail("the launcher was not recognised");
  std::vector<Mesh> meshes{Mesh({1, 1, processes, 1})};
  if (processes == 4) meshes.push_back(Mesh({2, 1, 2, 1}));
  if (processes == 4) meshes.push_back(Mesh({1, 2, 1, 2}));
  for (const Mesh& mesh : meshes) {
    compare(mesh, {}, {});
    // Short messages, and both ways of all_reduce.
    compare(mesh, {.max_message_bytes = 1000, .small_all_reduce_bytes = 64}, {});
  }
  compare(meshes.back(), {}, {.delay = milliseconds(2), .random = true, .seed = 5});
  MPI_Barrier(MPI_COMM_WORLD);
}

void initialize() {
  {
    MpiTransport transport(Mesh({1, 1, 2, 1}));
    if (transport.count_on_machine() != 2) fail("{} processes on this machine", transport.count_on_machine());
    run_on(transport, [](Communicator& communicator) {
      if (communicator.shares_memory()) fail("processes share no memory");
      // In place, in memory that only looks shared.
      const GroupMemory memory = communicator.allocate_shared(Axis::context, 8);
      const Bytes mine = testing::make_send(communicator.device(), 0, ElementType::float64, 1);
      std::copy(mine.begin(), mine.end(), memory.mine);
      const CollectiveCase c{CollectiveKind::all_gather, Axis::context, ElementType::float64, ReduceOp::sum, {1}};
      communicator.start({c.kind, c.axes, c.element, c.reduce, {{memory.mine, memory.base.get(), 1}}, {memory.base}})
          ->wait();
      const Bytes gathered(memory.base.get(), memory.base.get() + 16);
      if (gathered != testing::expected_result(communicator.mesh(), communicator.device(), c, 0)) fail("wrong gather");
      if (communicator.counters().of(CollectiveKind::all_gather).bytes != 8) fail("wrong counter");
    });
  }
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) fail("MPI was not finalised");
}

void abort_test() {
  MpiTransport transport(Mesh({1, 1, 4, 1}));
  run_on(transport, [](Communicator& communicator) {
    const auto pending = communicator.start({.axes = Axis::context});
    if (communicator.device() == 2) fail("disk full");
    pending->wait();
    communicator.start({.axes = Axis::context})->wait();
  });
}

void watchdog() {
  MpiTransport transport(Mesh({1, 1, 4, 1}), {.timeout = milliseconds(200)});
  run_on(transport, [](Communicator& communicator) {
    if (communicator.device() == 1) std::this_thread::sleep_for(std::chrono::seconds(40));
    communicator.start({.axes = Axis::context, .label = "step"})->wait();
  });
}

void kill_test() {
  MpiTransport transport(Mesh({1, 1, 4, 1}));
  run_on(transport, [](Communicator& communicator) {
    for (int step = 0;; ++step) {
      CaseRun run(communicator,
                  {CollectiveKind::all_reduce, Axis::context, ElementType::float32, ReduceOp::sum, {50000}});
      run.start(communicator);
      if (step == 20 && communicator.device() == 1) {
        std::puts("collectives under way");
        std::fflush(stdout);
        ::kill(::getpid(), SIGKILL);
      }
      run.wait();
    }
  });
}

void wrong_mesh() { MpiTransport transport(Mesh({1, 1, 6, 1})); }

int run_test(const std::string& name) {
  const std::map<std::string, std::pair<void (*)(), const char*>> tests{
      {"initialize", {initialize, "initialised and finalised"}}, {"abort", {abort_test, "not aborted"}},
      {"watchdog", {watchdog, "not ended by the watchdog"}},     {"kill", {kill_test, "not killed"}},
      {"wrong_mesh", {wrong_mesh, "wrong mesh accepted"}},       {"results", {results, "all results equal"}}};
  const auto test = tests.find(name);
  if (test == tests.end()) return 3;
  const bool initialize_here = name == "results";  // several transports, one MPI
  int level = 0;
  if (initialize_here) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  try {
    test->second.first();
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::printf("%s\n", test->second.second);
  if (initialize_here) MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace maxtext

int main(int argc, char** argv) { return argc == 2 ? maxtext::run_test(argv[1]) : 3; }
