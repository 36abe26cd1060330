// The PJRT C interface as C++: errors are exceptions, handles own what they refer to. Structs are zeroed and carry the
// size of the header they were compiled with, so one header serves newer plugins too.
#pragma once

#include <pjrt_c_api.h>

#include <filesystem>
#include <memory>
#include <string_view>

namespace maxtext::pjrt {

/// Destroys a handle of the C interface.
struct Deleter {
  const PJRT_Api* api = nullptr;
  void operator()(PJRT_Error* error) const;
  void operator()(PJRT_Event* event) const;
  void operator()(PJRT_Client* client) const;
  void operator()(PJRT_LoadedExecutable* executable) const;
  void operator()(PJRT_Executable* executable) const;
  void operator()(PJRT_Buffer* buffer) const;
  void operator()(PJRT_TopologyDescription* topology) const;
};

template <typename T>
using Handle = std::unique_ptr<T, Deleter>;

/// Loads the plugin and initialises it. It is never unloaded. Sets TF_CPP_MIN_LOG_LEVEL in the environment, to silence
/// the plugin's log, unless it is set: so it is to be called before other threads read the environment. Throws Error,
/// naming the file, where it is no plugin, has another major version of the interface or too little of it, or refuses.
const PJRT_Api* load_plugin(const std::filesystem::path& plugin);

/// Throws Error "what: the first paragraph of the plugin's message", OutOfDeviceMemory for its kind, unless `error` is
/// null. Takes the error.
void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what);

/// Waits for an event and takes it. Throws Error where it carries one.
void await(const PJRT_Api* api, PJRT_Event* event, std::string_view what);

}  // namespace maxtext::pjrt
