#include "engines/xla/pjrt/transfer.h"

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

PJRT_Error* copy_to_host(const PJRT_Api* api, PJRT_Buffer_ToHostBuffer_Args& args, PJRT_Buffer* buffer) {
  args.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE;
  args.src = buffer;
  return api->PJRT_Buffer_ToHostBuffer(&args);
}

}  // namespace

Handle<PJRT_Buffer> to_device(const PJRT_Api* api, PJRT_Client* client, PJRT_Device* device, const HostArray& array) {
  PJRT_Client_BufferFromHostBuffer_Args args{};
  args.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
  args.client = client;
  args.data = array.bytes.data();
  args.type = buffer_type(array.spec.dtype);
  args.dims = array.spec.shape.data();
  args.num_dims = array.spec.shape.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  args.device = device;
  check(api, api->PJRT_Client_BufferFromHostBuffer(&args), "copying an argument to a device");
  Handle<PJRT_Buffer> buffer(args.buffer, {api});
  await(api, args.done_with_host_buffer, "copying an argument to a device");
  return buffer;
}

HostArray to_host(const PJRT_Api* api, PJRT_Buffer* buffer, const TensorSpec& spec) {
  constexpr std::string_view kWhat = "copying a result to the host";
  PJRT_Buffer_ToHostBuffer_Args size{};
  check(api, copy_to_host(api, size, buffer), kWhat);
  if (size.dst_size != static_cast<std::size_t>(spec.bytes())) {
    fail("{}: {} bytes where {} has {}", kWhat, size.dst_size, to_string(spec), spec.bytes());
  }
  HostArray array{spec, std::vector<std::byte>(size.dst_size)};
  PJRT_Buffer_ToHostBuffer_Args copy{};
  copy.dst = array.bytes.data();
  copy.dst_size = array.bytes.size();
  check(api, copy_to_host(api, copy, buffer), kWhat);
  await(api, copy.event, kWhat);
  return array;
}

}  // namespace maxtext::pjrt
