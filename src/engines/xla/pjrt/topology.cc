#include "engines/xla/pjrt_topology.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/seconds_since.h"
#include "engines/xla/pjrt/executable.h"
#include "engines/xla/pjrt/named_values.h"

namespace maxtext {
namespace {

using pjrt::Handle;

class Compiled final : public CompiledProgram {
 public:
  Compiled(Handle<PJRT_Executable> executable, double compile_seconds)
      : executable_(std::move(executable)),
        api_(executable_.get_deleter().api),
        compile_seconds_(compile_seconds),
        memory_(pjrt::memory_of(api_, executable_.get())) {}

  double compile_seconds() const override { return compile_seconds_; }
  const CompiledMemory& memory() const override { return memory_; }
  OptimizedProgram optimized() const override { return pjrt::optimized(api_, executable_.get()); }
  std::string serialized() const override { return pjrt::serialize(api_, executable_.get()); }

 private:
  Handle<PJRT_Executable> executable_;
  const PJRT_Api* api_;
  double compile_seconds_;
  CompiledMemory memory_;
};

TopologyDevice device_of(const PJRT_Api* api, PJRT_DeviceDescription* description) {
  PJRT_DeviceDescription_Id_Args id{};
  id.struct_size = PJRT_DeviceDescription_Id_Args_STRUCT_SIZE;
  id.device_description = description;
  pjrt::check(api, api->PJRT_DeviceDescription_Id(&id), "devices of a topology");
  PJRT_DeviceDescription_Attributes_Args attributes{};
  attributes.struct_size = PJRT_DeviceDescription_Attributes_Args_STRUCT_SIZE;
  attributes.device_description = description;
  pjrt::check(api, api->PJRT_DeviceDescription_Attributes(&attributes), "devices of a topology");
  const std::span named(attributes.attributes, attributes.num_attributes);
  TopologyDevice device{.id = id.id, .coordinates = pjrt::integers_of(named, "coords"), .memory_bytes = 0};
  const std::vector<std::int64_t> limit = pjrt::integers_of(named, "device_memory_bytes_limit");
  if (!limit.empty()) device.memory_bytes = limit.front();
  return device;
}

std::vector<TopologyDevice> devices_of(const PJRT_Api* api, PJRT_TopologyDescription* topology) {
  PJRT_TopologyDescription_GetDeviceDescriptions_Args args{};
  args.struct_size = PJRT_TopologyDescription_GetDeviceDescriptions_Args_STRUCT_SIZE;
  args.topology = topology;
  pjrt::check(api, api->PJRT_TopologyDescription_GetDeviceDescriptions(&args), "devices of a topology");
  std::vector<TopologyDevice> devices;
  for (PJRT_DeviceDescription* description : std::span(args.descriptions, args.num_descriptions)) {
    devices.push_back(device_of(api, description));
  }
  std::ranges::sort(devices, {}, &TopologyDevice::id);
  return devices;
}

class Topology final : public PjrtTopology {
 public:
  explicit Topology(Handle<PJRT_TopologyDescription> topology)
      : topology_(std::move(topology)),
        api_(topology_.get_deleter().api),
        devices_(devices_of(api_, topology_.get())) {}

  const std::vector<TopologyDevice>& devices() const override { return devices_; }

  std::unique_ptr<CompiledProgram> compile(const std::string& module_text,
                                           const XlaCompileOptions& options) const override {
    if (options.replicas != std::ssize(devices_)) {
      fail_config("a mesh of {} devices, but the topology has {}", options.replicas, devices_.size());
    }
    const std::string serialized_options = serialize(options);
    const PJRT_Program program = pjrt::program_of(module_text);
    PJRT_Compile_Args args{};
    args.struct_size = PJRT_Compile_Args_STRUCT_SIZE;
    args.topology = topology_.get();
    args.program = &program;
    args.compile_options = serialized_options.data();
    args.compile_options_size = serialized_options.size();
    const auto start = std::chrono::steady_clock::now();
    pjrt::check(api_, api_->PJRT_Compile(&args), "compiling a program");
    const double seconds = seconds_since(start);
    return std::make_unique<Compiled>(Handle<PJRT_Executable>(args.executable, {api_}), seconds);
  }

 private:
  Handle<PJRT_TopologyDescription> topology_;
  const PJRT_Api* api_;
  std::vector<TopologyDevice> devices_;
};

/// Other plugins do not read them. The last two only spare complaints: a topology's name replaces what they say.
void expect_no_tpu() {
  ::setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
  ::setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
  ::setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 0);
}

}  // namespace

std::unique_ptr<PjrtTopology> PjrtTopology::open(const std::filesystem::path& plugin, const std::string& name,
                                                 const PjrtOptions& options) {
  expect_no_tpu();
  const PJRT_Api* api = pjrt::load_plugin(plugin);
  const std::vector<PJRT_NamedValue> named = pjrt::named_values(options);
  PJRT_TopologyDescription_Create_Args args{};
  args.struct_size = PJRT_TopologyDescription_Create_Args_STRUCT_SIZE;
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = named.data();
  args.num_options = named.size();
  pjrt::check(api, api->PJRT_TopologyDescription_Create(&args), fmt::format("topology {}", name));
  return std::make_unique<Topology>(Handle<PJRT_TopologyDescription>(args.topology, {api}));
}

}  // namespace maxtext
