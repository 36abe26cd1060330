#include "engines/xla/pjrt/executable.h"

#include "base/error.h"

namespace maxtext::pjrt {
namespace {

/// Frees what a serialized program lies in.
class SerializedBytes {
 public:
  explicit SerializedBytes(const PJRT_Executable_Serialize_Args& args) : args_(args) {}
  SerializedBytes(const SerializedBytes&) = delete;
  SerializedBytes& operator=(const SerializedBytes&) = delete;
  ~SerializedBytes() { args_.serialized_executable_deleter(args_.serialized_executable); }

  std::string copy() const { return {args_.serialized_bytes, args_.serialized_bytes_size}; }

 private:
  PJRT_Executable_Serialize_Args args_;
};

}  // namespace

PJRT_Program program_of(const std::string& module_text) {
  static constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  // Not written to: the pointer serves OptimizedProgram as well.
  program.code = const_cast<char*>(module_text.data());
  program.code_size = module_text.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

Handle<PJRT_Executable> executable_of(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) {
  PJRT_LoadedExecutable_GetExecutable_Args args{};
  args.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE;
  args.loaded_executable = loaded;
  check(api, api->PJRT_LoadedExecutable_GetExecutable(&args), "looking into a program");
  return {args.executable, {api}};
}

std::size_t result_count(const PJRT_Api* api, PJRT_Executable* executable) {
  PJRT_Executable_NumOutputs_Args args{};
  args.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE;
  args.executable = executable;
  check(api, api->PJRT_Executable_NumOutputs(&args), "results of a program");
  return args.num_outputs;
}

CompiledMemory memory_of(const PJRT_Api* api, PJRT_Executable* executable) {
  PJRT_Executable_GetCompiledMemoryStats_Args args{};
  args.struct_size = PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE;
  args.executable = executable;
  check(api, api->PJRT_Executable_GetCompiledMemoryStats(&args), "memory of a program");
  return {.arguments = args.argument_size_in_bytes,
          .results = args.output_size_in_bytes,
          .aliased = args.alias_size_in_bytes,
          .temporaries = args.temp_size_in_bytes,
          .code = args.generated_code_size_in_bytes,
          .peak = args.peak_memory_in_bytes};
}

OptimizedProgram optimized(const PJRT_Api* api, PJRT_Executable* executable) {
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  PJRT_Executable_OptimizedProgram_Args args{};
  args.struct_size = PJRT_Executable_OptimizedProgram_Args_STRUCT_SIZE;
  args.executable = executable;
  args.program = &program;
  // The first call gives the size, the second the bytes.
  check(api, api->PJRT_Executable_OptimizedProgram(&args), "the optimised program");
  std::string bytes(program.code_size, '\0');
  program.code = bytes.data();
  check(api, api->PJRT_Executable_OptimizedProgram(&args), "the optimised program");
  return {.format = {program.format, program.format_size}, .bytes = std::move(bytes)};
}

std::string serialize(const PJRT_Api* api, const PJRT_Executable* executable) {
  PJRT_Executable_Serialize_Args args{};
  args.struct_size = PJRT_Executable_Serialize_Args_STRUCT_SIZE;
  args.executable = executable;
  check(api, api->PJRT_Executable_Serialize(&args), "serializing a program");
  return SerializedBytes(args).copy();
}

void check_device_count(const XlaCompileOptions& options, std::size_t devices) {
  if (options.replicas > static_cast<int>(devices)) {
    fail_config("a mesh of {} devices, but the plugin has {}", options.replicas, devices);
  }
}

}  // namespace maxtext::pjrt
