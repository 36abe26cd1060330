// Arrays between the host and the memory of a device.
#pragma once

#include <span>

#include "engines/xla/pjrt/api.h"
#include "tensor/shape.h"

namespace maxtext::pjrt {

/// Copies row-major elements of `spec` to a device and waits. Throws Error where their bytes are not `spec`'s.
Handle<PJRT_Buffer> to_device(const PJRT_Api* api, PJRT_Client* client, PJRT_Device* device, const TensorSpec& spec,
                              std::span<const std::byte> bytes);

/// Copies back, row-major, and waits. Throws Error where `destination` or the buffer have not the bytes of `spec`.
void to_host(const PJRT_Api* api, PJRT_Buffer* buffer, const TensorSpec& spec, std::span<std::byte> destination);

}  // namespace maxtext::pjrt
