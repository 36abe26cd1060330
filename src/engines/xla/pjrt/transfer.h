// Arrays between the host and the memory of a device.
#pragma once

#include "engines/xla/host_array.h"
#include "engines/xla/pjrt/api.h"

namespace maxtext::pjrt {

/// Copies to a device and waits.
Handle<PJRT_Buffer> to_device(const PJRT_Api* api, PJRT_Client* client, PJRT_Device* device, const HostArray& array);

/// Copies back and waits. Throws Error where the buffer's size is not that of `spec`.
HostArray to_host(const PJRT_Api* api, PJRT_Buffer* buffer, const TensorSpec& spec);

}  // namespace maxtext::pjrt
