#include "engines/xla/pjrt/transfer.h"

#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace maxtext::pjrt {
namespace {

PJRT_Buffer_Type buffer_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return PJRT_Buffer_Type_F32;
    case DType::float64:
      return PJRT_Buffer_Type_F64;
    case DType::bfloat16:
      return PJRT_Buffer_Type_BF16;
    case DType::float16:
      return PJRT_Buffer_Type_F16;
    case DType::int32:
      return PJRT_Buffer_Type_S32;
    case DType::int64:
      return PJRT_Buffer_Type_S64;
    case DType::uint8:
      return PJRT_Buffer_Type_U8;
    case DType::boolean:
      return PJRT_Buffer_Type_PRED;
    case DType::int8:
      return PJRT_Buffer_Type_S8;
  }
  fail("PJRT has no type for dtype {}", dtype_name(dtype));
}

void check_bytes(std::string_view what, std::size_t bytes, const TensorSpec& spec) {
  if (bytes == static_cast<std::size_t>(spec.bytes())) return;
  fail("{}: {} bytes where {} has {}", what, bytes, to_string(spec), spec.bytes());
}

/// Asks for row-major elements: without a layout the copy would have the device's order of dimensions.
PJRT_Error* copy_to_host(const PJRT_Api* api, PJRT_Buffer_ToHostBuffer_Args& args, PJRT_Buffer* buffer,
                         std::size_t rank) {
  std::vector<std::int64_t> minor_to_major(rank);
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  args.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE;
  args.src = buffer;
  args.host_layout = &layout;
  return api->PJRT_Buffer_ToHostBuffer(&args);
}

}  // namespace

Handle<PJRT_Buffer> to_device(const PJRT_Api* api, PJRT_Client* client, PJRT_Device* device, const TensorSpec& spec,
                              std::span<const std::byte> bytes) {
  constexpr std::string_view kWhat = "copying an argument to a device";
  check_bytes(kWhat, bytes.size(), spec);
  PJRT_Client_BufferFromHostBuffer_Args args{};
  args.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
  args.client = client;
  args.data = bytes.data();
  args.type = buffer_type(spec.dtype);
  args.dims = spec.shape.data();
  args.num_dims = spec.shape.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  args.device = device;
  check(api, api->PJRT_Client_BufferFromHostBuffer(&args), kWhat);
  Handle<PJRT_Buffer> buffer(args.buffer, {api});
  await(api, args.done_with_host_buffer, kWhat);
  return buffer;
}

void to_host(const PJRT_Api* api, PJRT_Buffer* buffer, const TensorSpec& spec, std::span<std::byte> destination) {
  constexpr std::string_view kWhat = "copying a result to the host";
  check_bytes(kWhat, destination.size(), spec);
  PJRT_Buffer_ToHostBuffer_Args size{};
  check(api, copy_to_host(api, size, buffer, spec.shape.size()), kWhat);
  check_bytes(kWhat, size.dst_size, spec);
  // Nothing to copy, and a null destination would ask for the size again.
  if (destination.empty()) return;
  PJRT_Buffer_ToHostBuffer_Args copy{};
  copy.dst = destination.data();
  copy.dst_size = destination.size();
  check(api, copy_to_host(api, copy, buffer, spec.shape.size()), kWhat);
  await(api, copy.event, kWhat);
}

}  // namespace maxtext::pjrt
