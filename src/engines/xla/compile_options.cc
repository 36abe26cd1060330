#include "engines/xla/compile_options.h"

#include <cstdint>

namespace maxtext {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto.
constexpr std::uint64_t kExecutableBuildOptions = 3;
constexpr std::uint64_t kNumReplicas = 4;
constexpr std::uint64_t kNumPartitions = 5;

// Wire types.
constexpr std::uint64_t kVarint = 0;
constexpr std::uint64_t kLengthDelimited = 2;

void append_varint(std::string& message, std::uint64_t value) {
  while (value >= 0x80) {
    message.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  message.push_back(static_cast<char>(value));
}

void append_integer(std::string& message, std::uint64_t field, std::uint64_t value) {
  append_varint(message, field << 3 | kVarint);
  append_varint(message, value);
}

}  // namespace

std::string compile_options(int replicas) {
  std::string build;
  append_integer(build, kNumReplicas, static_cast<std::uint64_t>(replicas));
  append_integer(build, kNumPartitions, 1);
  std::string options;
  append_varint(options, kExecutableBuildOptions << 3 | kLengthDelimited);
  append_varint(options, build.size());
  return options + build;
}

}  // namespace maxtext
