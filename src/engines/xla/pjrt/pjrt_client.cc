#include "engines/xla/pjrt_client.h"

#include <utility>

#include "base/error.h"
#include "engines/xla/compile_options.h"
#include "engines/xla/pjrt/buffer.h"
#include "engines/xla/pjrt/program.h"
#include "engines/xla/pjrt/transfer.h"

namespace maxtext {
namespace {

using pjrt::Handle;

std::span<PJRT_Device* const> addressable_devices(const PJRT_Api* api, PJRT_Client* client) {
  PJRT_Client_AddressableDevices_Args args{};
  args.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE;
  args.client = client;
  pjrt::check(api, api->PJRT_Client_AddressableDevices(&args), "devices of a plugin");
  return {args.addressable_devices, args.num_addressable_devices};
}

class Client final : public PjrtClient {
 public:
  Client(const PJRT_Api* api, std::shared_ptr<PJRT_Client> client)
      : api_(api), client_(std::move(client)), devices_(addressable_devices(api_, client_.get())) {}

  std::unique_ptr<PjrtProgram> compile(const std::string& module_text, int replicas) override {
    static constexpr std::string_view kFormat = "mlir";
    const std::string options = compile_options(replicas);
    std::string code = module_text;
    PJRT_Program program{};
    program.struct_size = PJRT_Program_STRUCT_SIZE;
    program.code = code.data();
    program.code_size = code.size();
    program.format = kFormat.data();
    program.format_size = kFormat.size();
    PJRT_Client_Compile_Args args{};
    args.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE;
    args.client = client_.get();
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    pjrt::check(api_, api_->PJRT_Client_Compile(&args), "compiling a program");
    return std::make_unique<pjrt::Program>(client_, Handle<PJRT_LoadedExecutable>(args.executable, {api_}));
  }

  std::unique_ptr<PjrtBuffer> put(int device, const TensorSpec& spec, std::span<const std::byte> bytes) override {
    if (device < 0 || device >= std::ssize(devices_)) {
      fail("xla: there is no device {}: the plugin has {}", device, devices_.size());
    }
    PJRT_Device* const target = devices_[static_cast<std::size_t>(device)];
    return std::make_unique<pjrt::Buffer>(client_, pjrt::to_device(api_, client_.get(), target, spec, bytes), spec);
  }

 private:
  const PJRT_Api* api_;
  std::shared_ptr<PJRT_Client> client_;
  std::span<PJRT_Device* const> devices_;
};

}  // namespace

bool PjrtClient::built_in() { return true; }

std::unique_ptr<PjrtClient> PjrtClient::open(const std::filesystem::path& plugin, int cpu_devices) {
  static constexpr std::string_view kDeviceCount = "cpu_device_count";
  const PJRT_Api* api = pjrt::load_plugin(plugin);
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = kDeviceCount.data();
  option.name_size = kDeviceCount.size();
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = cpu_devices;
  option.value_size = 1;
  PJRT_Client_Create_Args args{};
  args.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
  args.create_options = &option;
  args.num_options = 1;
  pjrt::check(api, api->PJRT_Client_Create(&args), plugin.string());
  return std::make_unique<Client>(api, std::shared_ptr<PJRT_Client>(args.client, pjrt::Deleter{api}));
}

}  // namespace maxtext
