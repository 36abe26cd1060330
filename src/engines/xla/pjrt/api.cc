#include "engines/xla/pjrt/api.h"

#include <dlfcn.h>

#include "base/error.h"

namespace maxtext::pjrt {
namespace {

std::string message_of(const PJRT_Api* api, const PJRT_Error* error) {
  PJRT_Error_Message_Args args{};
  args.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  args.error = error;
  api->PJRT_Error_Message(&args);
  return {args.message, args.message_size};
}

/// Destroying has no error that anybody could act upon.
void ignore(const PJRT_Api* api, PJRT_Error* error) { Handle<PJRT_Error>(error, {api}).reset(); }

}  // namespace

void Deleter::operator()(PJRT_Error* error) const {
  PJRT_Error_Destroy_Args args{};
  args.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  api->PJRT_Error_Destroy(&args);
}

void Deleter::operator()(PJRT_Event* event) const {
  PJRT_Event_Destroy_Args args{};
  args.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
  args.event = event;
  ignore(api, api->PJRT_Event_Destroy(&args));
}

void Deleter::operator()(PJRT_Client* client) const {
  PJRT_Client_Destroy_Args args{};
  args.struct_size = PJRT_Client_Destroy_Args_STRUCT_SIZE;
  args.client = client;
  ignore(api, api->PJRT_Client_Destroy(&args));
}

void Deleter::operator()(PJRT_LoadedExecutable* executable) const {
  PJRT_LoadedExecutable_Destroy_Args args{};
  args.struct_size = PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE;
  args.executable = executable;
  ignore(api, api->PJRT_LoadedExecutable_Destroy(&args));
}

void Deleter::operator()(PJRT_Executable* executable) const {
  PJRT_Executable_Destroy_Args args{};
  args.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE;
  args.executable = executable;
  ignore(api, api->PJRT_Executable_Destroy(&args));
}

void Deleter::operator()(PJRT_Buffer* buffer) const {
  PJRT_Buffer_Destroy_Args args{};
  args.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE;
  args.buffer = buffer;
  ignore(api, api->PJRT_Buffer_Destroy(&args));
}

const PJRT_Api* load_plugin(const std::filesystem::path& plugin) {
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail("PJRT plugin {} cannot be loaded: {}", plugin.string(), ::dlerror());
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(::dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) fail("{} is no PJRT plugin: it has no GetPjrtApi", plugin.string());
  const PJRT_Api* api = get_api();
  if (api == nullptr || api->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    fail("PJRT plugin {} has another major version of the interface than {}", plugin.string(), PJRT_API_MAJOR);
  }
  PJRT_Plugin_Initialize_Args args{};
  args.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE;
  check(api, api->PJRT_Plugin_Initialize(&args), plugin.string());
  return api;
}

void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  if (error == nullptr) return;
  const Handle<PJRT_Error> owned(error, {api});
  fail("{}: {}", what, message_of(api, error));
}

void await(const PJRT_Api* api, PJRT_Event* event, std::string_view what) {
  const Handle<PJRT_Event> owned(event, {api});
  PJRT_Event_Await_Args args{};
  args.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE;
  args.event = event;
  check(api, api->PJRT_Event_Await(&args), what);
}

}  // namespace maxtext::pjrt
