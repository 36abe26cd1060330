// A program loaded on the devices of its client, over the C interface.
#pragma once

#include <memory>
#include <vector>

#include "engines/xla/pjrt/api.h"
#include "engines/xla/pjrt_client.h"

namespace maxtext::pjrt {

class Program final : public PjrtProgram {
 public:
  /// Keeps the client alive.
  Program(std::shared_ptr<PJRT_Client> client, Handle<PJRT_LoadedExecutable> executable);

  std::vector<Results> run(const std::vector<Arguments>& arguments, const std::vector<TensorSpec>& results) override;
  std::string serialized() const override;

 private:
  using Lists = std::vector<std::vector<PJRT_Buffer*>>;

  /// Result buffers by replica, of the devices' own making: nothing is copied to the host.
  std::vector<std::vector<Handle<PJRT_Buffer>>> execute(const Lists& arguments) const;

  std::shared_ptr<PJRT_Client> client_;
  Handle<PJRT_LoadedExecutable> executable_;
  std::size_t replica_count_;
  std::size_t result_count_;
};

}  // namespace maxtext::pjrt
