// The virtual devices of the CPU plugin as the engines of a test's mesh.
#pragma once

#include <memory>

#include "engines/xla/xla_engine.h"
#include "engines/xla/xla_runtime.h"
#include "mesh/communicator.h"
#include "xla/plugin.h"

namespace maxtext::testing {

class VirtualDevices {
 public:
  explicit VirtualDevices(int count)
      : runtime_(std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), count), count)) {}

  /// For ModelRunOptions::make_engine and its like; the engine keeps the devices.
  std::unique_ptr<Engine> operator()(Communicator& communicator) const {
    return std::make_unique<XlaEngine>(communicator.mesh(), communicator.device(), runtime_);
  }

  const XlaRuntime& runtime() const { return *runtime_; }

 private:
  std::shared_ptr<XlaRuntime> runtime_;
};

}  // namespace maxtext::testing
