// A config.json is refused with a ConfigError, or describes a model that can be written again.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto shape = maxtext::parse_hf_config(std::string(reinterpret_cast<const char*>(data), size), "config.json");
    maxtext::write_hf_config(shape);
  } catch (const maxtext::ConfigError&) {
    return 0;
  }
  return 0;
}
