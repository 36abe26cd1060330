// A plugin that is broken in the way that MAXTEXT_TEST_PLUGIN_FAULT names.
#include <pjrt_c_api.h>

#include <cstdlib>
#include <string_view>

// A plugin's error is its own type; this one has always the same words.
struct PJRT_Error {};

namespace {

PJRT_Error g_error;

std::string_view fault() {
  const char* value = std::getenv("MAXTEXT_TEST_PLUGIN_FAULT");
  return value != nullptr ? value : "";
}

void message(PJRT_Error_Message_Args* args) {
  static constexpr std::string_view kWords = "the words of the plugin";
  args->message = kWords.data();
  args->message_size = kWords.size();
}

PJRT_Error* fails(bool wanted) { return wanted ? &g_error : nullptr; }

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api;
  api = {};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  api.PJRT_Error_Message = message;
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args*) {};
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) {
    args->code = PJRT_Error_Code_INTERNAL;
    return fails(false);
  };
  api.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) { return fails(fault() == "initialize"); };
  api.PJRT_Client_Create = [](PJRT_Client_Create_Args*) { return fails(fault() == "client"); };
  if (fault() == "null") return nullptr;
  if (fault() == "major") api.pjrt_api_version.major_version = 7;
  if (fault() == "old") api.struct_size = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Compile);
  return &api;
}
