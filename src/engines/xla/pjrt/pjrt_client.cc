#include "engines/xla/pjrt_client.h"

#include <fmt/ranges.h>

#include <utility>

#include "base/error.h"
#include "engines/xla/pjrt/buffer.h"
#include "engines/xla/pjrt/executable.h"
#include "engines/xla/pjrt/named_values.h"
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

std::string stablehlo_version(const PJRT_Api* api) {
  PJRT_Plugin_Attributes_Args args{};
  args.struct_size = PJRT_Plugin_Attributes_Args_STRUCT_SIZE;
  pjrt::check(api, api->PJRT_Plugin_Attributes(&args), "attributes of a plugin");
  const std::span attributes(args.attributes, args.num_attributes);
  return fmt::format("{}", fmt::join(pjrt::integers_of(attributes, "stablehlo_current_version"), "."));
}

PjrtDescription describe(const PJRT_Api* api, PJRT_Client* client) {
  PJRT_Client_PlatformName_Args name{};
  name.struct_size = PJRT_Client_PlatformName_Args_STRUCT_SIZE;
  name.client = client;
  pjrt::check(api, api->PJRT_Client_PlatformName(&name), "platform of a plugin");
  PJRT_Client_PlatformVersion_Args version{};
  version.struct_size = PJRT_Client_PlatformVersion_Args_STRUCT_SIZE;
  version.client = client;
  pjrt::check(api, api->PJRT_Client_PlatformVersion(&version), "platform of a plugin");
  const PJRT_Api_Version& interface = api->pjrt_api_version;
  return {.platform = {name.platform_name, name.platform_name_size},
          .platform_version = {version.platform_version, version.platform_version_size},
          .api_version = fmt::format("{}.{}", interface.major_version, interface.minor_version),
          .stablehlo_version = stablehlo_version(api),
          .devices = static_cast<int>(addressable_devices(api, client).size())};
}

class Client final : public PjrtClient {
 public:
  Client(const PJRT_Api* api, std::shared_ptr<PJRT_Client> client)
      : api_(api),
        client_(std::move(client)),
        devices_(addressable_devices(api_, client_.get())),
        description_(describe(api_, client_.get())) {}

  const PjrtDescription& description() const override { return description_; }

  std::unique_ptr<PjrtProgram> compile(const std::string& module_text, const XlaCompileOptions& options) override {
    pjrt::check_device_count(options, devices_.size());
    const std::string serialized_options = serialize(options);
    const PJRT_Program program = pjrt::program_of(module_text);
    PJRT_Client_Compile_Args args{};
    args.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE;
    args.client = client_.get();
    args.program = &program;
    args.compile_options = serialized_options.data();
    args.compile_options_size = serialized_options.size();
    pjrt::check(api_, api_->PJRT_Client_Compile(&args), "compiling a program");
    return own(args.executable);
  }

  std::unique_ptr<PjrtProgram> load(std::string_view serialized) override {
    PJRT_Executable_DeserializeAndLoad_Args args{};
    args.struct_size = PJRT_Executable_DeserializeAndLoad_Args_STRUCT_SIZE;
    args.client = client_.get();
    args.serialized_executable = serialized.data();
    args.serialized_executable_size = serialized.size();
    pjrt::check(api_, api_->PJRT_Executable_DeserializeAndLoad(&args), "loading a compiled program");
    return own(args.loaded_executable);
  }

  std::unique_ptr<PjrtBuffer> put(int device, const TensorSpec& spec, std::span<const std::byte> bytes) override {
    if (device < 0 || device >= std::ssize(devices_)) {
      fail("xla: there is no device {}: the plugin has {}", device, devices_.size());
    }
    PJRT_Device* const target = devices_[static_cast<std::size_t>(device)];
    return std::make_unique<pjrt::Buffer>(client_, pjrt::to_device(api_, client_.get(), target, spec, bytes), spec);
  }

 private:
  std::unique_ptr<PjrtProgram> own(PJRT_LoadedExecutable* executable) const {
    return std::make_unique<pjrt::Program>(client_, Handle<PJRT_LoadedExecutable>(executable, {api_}));
  }

  const PJRT_Api* api_;
  std::shared_ptr<PJRT_Client> client_;
  std::span<PJRT_Device* const> devices_;
  PjrtDescription description_;
};

}  // namespace

bool PjrtClient::built_in() { return true; }

std::unique_ptr<PjrtClient> PjrtClient::open(const std::filesystem::path& plugin, const PjrtOptions& options) {
  const PJRT_Api* api = pjrt::load_plugin(plugin);
  const std::vector<PJRT_NamedValue> named = pjrt::named_values(options);
  PJRT_Client_Create_Args args{};
  args.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
  args.create_options = named.data();
  args.num_options = named.size();
  pjrt::check(api, api->PJRT_Client_Create(&args), fmt::format("PJRT plugin {} finds no devices", plugin.string()));
  return std::make_unique<Client>(api, std::shared_ptr<PJRT_Client>(args.client, pjrt::Deleter{api}));
}

}  // namespace maxtext
