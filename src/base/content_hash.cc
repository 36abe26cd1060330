#include "base/content_hash.h"

#include <fmt/format.h>

namespace maxtext {

std::uint64_t content_hash(std::string_view bytes, std::uint64_t hash) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  return hash;
}

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace maxtext
