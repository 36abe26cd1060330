// A .safetensors file is refused with an Error, or all its tensors can be read.
#include <cstdint>

#include "base/error.h"
#include "memory_file.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

void read_all(const SafetensorsFile& file) {
  std::size_t total = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    total += entry.bytes.size();
    for (const std::byte byte : entry.bytes) total += std::to_integer<std::size_t>(byte);
    file.at(entry.name);
  }
  if (total == SIZE_MAX) __builtin_trap();  // uses the sum, or the reads would be left out
}

}  // namespace
}  // namespace maxtext

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const maxtext::MemoryFile input(data, size);
  try {
    maxtext::read_all(maxtext::SafetensorsFile(input.path()));
  } catch (const maxtext::Error&) {
    return 0;
  }
  return 0;
}
