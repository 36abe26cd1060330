#include "engines/xla/pjrt/api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "engines/xla/pjrt_error.h"

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

bool is_out_of_memory(const PJRT_Api* api, const PJRT_Error* error) {
  PJRT_Error_GetCode_Args args{};
  args.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE;
  args.error = error;
  // Another error than this one says nothing of the one in question.
  ignore(api, api->PJRT_Error_GetCode(&args));
  return args.code == PJRT_Error_Code_RESOURCE_EXHAUSTED;
}

/// As one line. What follows is tables of allocations and traces of the plugin's own sources.
std::string first_paragraph(const std::string& words) {
  std::string line = words.substr(0, std::min(words.find("\n\n"), words.find("\n=== ")));
  while (line.ends_with('\n')) line.pop_back();
  for (std::size_t end = line.find('\n'); end != std::string::npos; end = line.find('\n')) line[end] = ' ';
  return line;
}

/// Functions are added at the end of the table, with a new minor version: what counts is whether it has the last one
/// that is called.
void check_version(const PJRT_Api& api, const std::filesystem::path& plugin) {
  constexpr std::size_t kNeeded = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats);
  const PJRT_Api_Version& version = api.pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR) {
    fail("PJRT plugin {} has version {}.{} of the interface, but maxtext was built for {}.x", plugin.string(),
         version.major_version, version.minor_version, PJRT_API_MAJOR);
  }
  if (api.struct_size < kNeeded) {
    fail("PJRT plugin {} is too old: its interface, version {}.{}, lacks functions that maxtext calls", plugin.string(),
         version.major_version, version.minor_version);
  }
}

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

void Deleter::operator()(PJRT_TopologyDescription* topology) const {
  PJRT_TopologyDescription_Destroy_Args args{};
  args.struct_size = PJRT_TopologyDescription_Destroy_Args_STRUCT_SIZE;
  args.topology = topology;
  ignore(api, api->PJRT_TopologyDescription_Destroy(&args));
}

const PJRT_Api* load_plugin(const std::filesystem::path& plugin) {
  // Only what ends the process: what else fails is an exception with the plugin's words.
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail("PJRT plugin {} cannot be loaded: {}", plugin.string(), ::dlerror());
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(::dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) fail("{} is no PJRT plugin: it has no GetPjrtApi", plugin.string());
  const PJRT_Api* api = get_api();
  if (api == nullptr) fail("{} is no PJRT plugin: its GetPjrtApi returns nothing", plugin.string());
  check_version(*api, plugin);
  PJRT_Plugin_Initialize_Args args{};
  args.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE;
  check(api, api->PJRT_Plugin_Initialize(&args), fmt::format("PJRT plugin {} refuses to start", plugin.string()));
  return api;
}

void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  if (error == nullptr) return;
  const Handle<PJRT_Error> owned(error, {api});
  const std::string words = message_of(api, error);
  const std::string message = fmt::format("{}: {}", what, first_paragraph(words));
  if (is_out_of_memory(api, error)) throw OutOfDeviceMemory(message, words);
  throw Error(message);
}

void await(const PJRT_Api* api, PJRT_Event* event, std::string_view what) {
  const Handle<PJRT_Event> owned(event, {api});
  PJRT_Event_Await_Args args{};
  args.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE;
  args.event = event;
  check(api, api->PJRT_Event_Await(&args), what);
}

}  // namespace maxtext::pjrt
