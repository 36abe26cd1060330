// All devices of the mesh are threads of this process. A collective is a rendezvous: starting one posts pointers and
// returns; waiting copies or sums straight out of the peers' memory, so a byte is moved once. Cost of a collective
// without data: a mutex and, for those who come early, one sleep on a condition variable; nobody spins, since there
// may be more devices than cores.
#pragma once

#include <memory>

#include "mesh/transport.h"

namespace maxtext {

struct ThreadTransportState;

/// Each device is a thread with an engine of its own, and on one machine more than this only wait for each other: what
/// takes the number of devices from a user refuses more.
constexpr int kMostThreadDevices = 1024;

class ThreadTransport final : public Transport {
 public:
  explicit ThreadTransport(Mesh mesh, TransportOptions options = {});

  const Mesh& mesh() const override;
  const std::vector<int>& local_devices() const override;
  /// Throws Error for a device that the mesh does not have.
  std::unique_ptr<Communicator> communicator(int device) override;
  void abort(int device, const std::string& reason) override;

 private:
  /// Shared with communicators and handles, which may outlive the transport.
  std::shared_ptr<ThreadTransportState> state_;
};

}  // namespace maxtext
