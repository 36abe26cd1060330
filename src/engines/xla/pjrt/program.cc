#include "engines/xla/pjrt/program.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "engines/xla/pjrt/buffer.h"
#include "engines/xla/pjrt/executable.h"

namespace maxtext::pjrt {
namespace {

std::size_t replica_count(const PJRT_Api* api, PJRT_LoadedExecutable* executable) {
  PJRT_LoadedExecutable_AddressableDevices_Args args{};
  args.struct_size = PJRT_LoadedExecutable_AddressableDevices_Args_STRUCT_SIZE;
  args.executable = executable;
  check(api, api->PJRT_LoadedExecutable_AddressableDevices(&args), "devices of a program");
  return args.num_addressable_devices;
}

/// All of them, also after one failed: an event that nobody takes would leak, and a replica may still be running.
void await_all(const PJRT_Api* api, const std::vector<PJRT_Event*>& events) {
  std::exception_ptr first_failure;
  for (std::size_t i = 0; i < events.size(); ++i) {
    try {
      await(api, events[i], fmt::format("running a program, replica {}", i));
    } catch (const Error&) {
      if (!first_failure) first_failure = std::current_exception();
    }
  }
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace

Program::Program(std::shared_ptr<PJRT_Client> client, Handle<PJRT_LoadedExecutable> executable)
    : client_(std::move(client)),
      executable_(std::move(executable)),
      replica_count_(replica_count(executable_.get_deleter().api, executable_.get())),
      result_count_(result_count(executable_.get_deleter().api,
                                 executable_of(executable_.get_deleter().api, executable_.get()).get())) {}

std::vector<PjrtProgram::Results> Program::run(const std::vector<Arguments>& arguments,
                                               const std::vector<TensorSpec>& results) {
  if (arguments.size() != replica_count_) {
    fail("a program of {} replicas was given arguments for {}", replica_count_, arguments.size());
  }
  if (results.size() != result_count_) fail("a program has {} results, not {}", result_count_, results.size());
  Lists inputs;
  for (const Arguments& replica : arguments) {
    if (replica.size() != arguments.front().size()) {
      fail("replicas of a program were given {} and {} arguments", arguments.front().size(), replica.size());
    }
    inputs.emplace_back();
    for (const PjrtBuffer* argument : replica) {
      inputs.back().push_back(dynamic_cast<const Buffer&>(*argument).get());
    }
  }
  std::vector<Results> outputs;
  for (std::vector<Handle<PJRT_Buffer>>& replica : execute(inputs)) {
    outputs.emplace_back();
    for (std::size_t i = 0; i < results.size(); ++i) {
      outputs.back().push_back(std::make_unique<Buffer>(client_, std::move(replica[i]), results[i]));
    }
  }
  return outputs;
}

std::string Program::serialized() const {
  const PJRT_Api* api = executable_.get_deleter().api;
  return serialize(api, executable_of(api, executable_.get()).get());
}

std::vector<std::vector<Handle<PJRT_Buffer>>> Program::execute(const Lists& arguments) const {
  const PJRT_Api* api = executable_.get_deleter().api;
  // The C interface takes lists of lists of pointers.
  Lists result_lists(arguments.size(), std::vector<PJRT_Buffer*>(result_count_));
  std::vector<PJRT_Buffer* const*> argument_pointers;
  std::vector<PJRT_Buffer**> result_pointers;
  for (const auto& list : arguments) argument_pointers.push_back(list.data());
  for (auto& list : result_lists) result_pointers.push_back(list.data());

  std::vector<PJRT_Event*> complete(arguments.size());
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  PJRT_LoadedExecutable_Execute_Args args{};
  args.struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE;
  args.executable = executable_.get();
  args.options = &options;
  args.argument_lists = argument_pointers.data();
  args.num_devices = arguments.size();
  args.num_args = arguments.front().size();
  args.output_lists = result_pointers.data();
  args.device_complete_events = complete.data();
  check(api, api->PJRT_LoadedExecutable_Execute(&args), "running a program");

  std::vector<std::vector<Handle<PJRT_Buffer>>> results;
  for (const auto& list : result_lists) {
    results.emplace_back();
    for (PJRT_Buffer* buffer : list) results.back().emplace_back(buffer, Deleter{api});
  }
  await_all(api, complete);
  return results;
}

}  // namespace maxtext::pjrt
