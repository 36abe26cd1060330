// One device per process, under mpirun or srun.
//
// A collective is one exchange of messages between all pairs of its group, or two for a long all_reduce; sums are
// taken locally in ascending group rank, so results are bitwise those of the thread transport. Messages carry the
// number of their collective as tag, and every call into the transport advances all collectives under way, so handles
// may be waited for in any order. MPI's own non-blocking collectives fit less well: they fix no order of summation,
// and the second half of an all_reduce would have to start at the same place in the order of all members.
// Cost per device: all_gather and reduce_scatter send (P-1)·n elements, all_reduce 2·(P-1)/P·n, with P-1 messages
// each time. MPI moves data only inside MPI calls, that is during `start` and `wait`, unless the network does it alone.
#pragma once

#include <memory>

#include "mesh/transport.h"

namespace maxtext {

struct MpiState;

class MpiTransport final : public Transport {
 public:
  /// Collective over all processes. Initialises MPI unless it is, and then finalises it at the end. Throws ConfigError
  /// when the number of processes is not that of the mesh's devices; device = rank in MPI_COMM_WORLD. The thread that
  /// uses the communicator need not be the one that initialised MPI (MPI_THREAD_SERIALIZED).
  explicit MpiTransport(Mesh mesh, TransportOptions options = {});

  const Mesh& mesh() const override;
  const std::vector<int>& local_devices() const override;
  /// Throws Error for any other than the local device.
  std::unique_ptr<Communicator> communicator(int device) override;
  /// Prints "device D failed: reason" to stderr and ends all processes with exit code 1 (let_first_process_speak).
  void abort(int device, const std::string& reason) override;

  /// The index of this process among those of the same machine, and their number.
  int index_on_machine() const;
  int count_on_machine() const;

  /// The cores of this process, as they were when the transport was made: those that the launcher bound it to, or,
  /// where several processes of the machine were given the same ones (none is bound), its equal share of them.
  const std::vector<int>& cores() const;

 private:
  /// Shared with communicators and handles; the last one finalises MPI. It does not when this device has failed or an
  /// exception is passing, since MPI_Finalize would wait for peers that wait for us.
  std::shared_ptr<MpiState> state_;
};

/// Whether this process was started by mpirun, or by srun as one of several (environment variables of Open MPI, PMI,
/// MVAPICH and Slurm).
bool launched_by_mpi();

/// The number of processes according to the same variables; 1 without a launcher.
int launched_process_count();

/// The index of this process among them; 0 without a launcher.
int launched_process_index();

/// To be called before a failure is printed: most are common to all processes (a wrong configuration, a loss that is
/// NaN), and one process should say it. In process 0 returns at once; in others after three seconds, in which process
/// 0, if it fails too, has spoken and ended and the launcher has ended this one. What only this process knows is still
/// said.
void let_first_process_speak();

}  // namespace maxtext
