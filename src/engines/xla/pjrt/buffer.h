// An array in a device's memory, over the C interface.
#pragma once

#include <memory>

#include "engines/xla/pjrt/api.h"
#include "engines/xla/pjrt_client.h"

namespace maxtext::pjrt {

class Buffer final : public PjrtBuffer {
 public:
  /// Keeps the client alive. `spec` is what the buffer holds.
  Buffer(std::shared_ptr<PJRT_Client> client, Handle<PJRT_Buffer> buffer, const TensorSpec& spec);

  const TensorSpec& spec() const override { return spec_; }
  void read(std::span<std::byte> destination) const override;

  PJRT_Buffer* get() const { return buffer_.get(); }

 private:
  std::shared_ptr<PJRT_Client> client_;
  Handle<PJRT_Buffer> buffer_;
  TensorSpec spec_;
};

}  // namespace maxtext::pjrt
