#include "engines/xla/pjrt_client.h"

#include <span>
#include <utility>

#include "base/error.h"
#include "engines/xla/compile_options.h"
#include "engines/xla/pjrt/transfer.h"

namespace maxtext {
namespace {

using pjrt::Handle;

/// A client, shared by the programs compiled with it.
struct Device {
  const PJRT_Api* api;
  std::shared_ptr<PJRT_Client> client;
};

std::span<PJRT_Device* const> devices_of(const Device& device, PJRT_LoadedExecutable* executable) {
  PJRT_LoadedExecutable_AddressableDevices_Args args{};
  args.struct_size = PJRT_LoadedExecutable_AddressableDevices_Args_STRUCT_SIZE;
  args.executable = executable;
  pjrt::check(device.api, device.api->PJRT_LoadedExecutable_AddressableDevices(&args), "devices of a program");
  return {args.addressable_devices, args.num_addressable_devices};
}

std::size_t result_count(const Device& device, PJRT_LoadedExecutable* executable) {
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE;
  get.loaded_executable = executable;
  pjrt::check(device.api, device.api->PJRT_LoadedExecutable_GetExecutable(&get), "results of a program");
  const Handle<PJRT_Executable> owned(get.executable, {device.api});
  PJRT_Executable_NumOutputs_Args count{};
  count.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE;
  count.executable = get.executable;
  pjrt::check(device.api, device.api->PJRT_Executable_NumOutputs(&count), "results of a program");
  return count.num_outputs;
}

class Program final : public PjrtProgram {
 public:
  Program(Device device, Handle<PJRT_LoadedExecutable> executable)
      : device_(std::move(device)),
        executable_(std::move(executable)),
        devices_(devices_of(device_, executable_.get())),
        result_count_(result_count(device_, executable_.get())) {}

  std::vector<std::vector<HostArray>> run(const std::vector<std::vector<HostArray>>& arguments,
                                          const std::vector<TensorSpec>& results) override {
    if (arguments.size() != devices_.size()) {
      fail("a program of {} replicas was given arguments for {}", devices_.size(), arguments.size());
    }
    if (results.size() != result_count_) fail("a program has {} results, not {}", result_count_, results.size());
    std::vector<std::vector<Handle<PJRT_Buffer>>> inputs;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      inputs.emplace_back();
      for (const HostArray& array : arguments[i]) {
        inputs.back().push_back(pjrt::to_device(device_.api, device_.client.get(), devices_[i], array));
      }
    }
    std::vector<std::vector<HostArray>> outputs;
    for (const std::vector<Handle<PJRT_Buffer>>& replica : execute(inputs)) {
      outputs.emplace_back();
      for (std::size_t i = 0; i < results.size(); ++i) {
        outputs.back().push_back(pjrt::to_host(device_.api, replica[i].get(), results[i]));
      }
    }
    return outputs;
  }

 private:
  std::vector<std::vector<Handle<PJRT_Buffer>>> execute(const std::vector<std::vector<Handle<PJRT_Buffer>>>& inputs) {
    // The C interface takes lists of lists of pointers.
    std::vector<std::vector<PJRT_Buffer*>> argument_lists;
    std::vector<std::vector<PJRT_Buffer*>> result_lists(inputs.size(), std::vector<PJRT_Buffer*>(result_count_));
    std::vector<PJRT_Buffer* const*> argument_pointers;
    std::vector<PJRT_Buffer**> result_pointers;
    for (const auto& replica : inputs) {
      argument_lists.emplace_back();
      for (const Handle<PJRT_Buffer>& buffer : replica) argument_lists.back().push_back(buffer.get());
    }
    for (const auto& list : argument_lists) argument_pointers.push_back(list.data());
    for (auto& list : result_lists) result_pointers.push_back(list.data());

    std::vector<PJRT_Event*> complete(inputs.size());
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    PJRT_LoadedExecutable_Execute_Args args{};
    args.struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE;
    args.executable = executable_.get();
    args.options = &options;
    args.argument_lists = argument_pointers.data();
    args.num_devices = inputs.size();
    args.num_args = inputs.empty() ? 0 : inputs.front().size();
    args.output_lists = result_pointers.data();
    args.device_complete_events = complete.data();
    pjrt::check(device_.api, device_.api->PJRT_LoadedExecutable_Execute(&args), "running a program");

    std::vector<std::vector<Handle<PJRT_Buffer>>> results;
    for (const auto& list : result_lists) {
      results.emplace_back();
      for (PJRT_Buffer* buffer : list) results.back().emplace_back(buffer, pjrt::Deleter{device_.api});
    }
    await_all(complete);
    return results;
  }

  /// All of them, also after one failed: an event that nobody takes would leak, and a replica may still be running.
  void await_all(const std::vector<PJRT_Event*>& events) {
    std::exception_ptr first_failure;
    for (std::size_t i = 0; i < events.size(); ++i) {
      try {
        pjrt::await(device_.api, events[i], fmt::format("running a program, replica {}", i));
      } catch (const Error&) {
        if (!first_failure) first_failure = std::current_exception();
      }
    }
    if (first_failure) std::rethrow_exception(first_failure);
  }

  Device device_;
  Handle<PJRT_LoadedExecutable> executable_;
  std::span<PJRT_Device* const> devices_;
  std::size_t result_count_;
};

class Client final : public PjrtClient {
 public:
  explicit Client(Device device) : device_(std::move(device)) {}

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
    args.client = device_.client.get();
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    pjrt::check(device_.api, device_.api->PJRT_Client_Compile(&args), "compiling a program");
    return std::make_unique<Program>(device_, Handle<PJRT_LoadedExecutable>(args.executable, {device_.api}));
  }

 private:
  Device device_;
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
  return std::make_unique<Client>(Device{api, std::shared_ptr<PJRT_Client>(args.client, pjrt::Deleter{api})});
}

}  // namespace maxtext
