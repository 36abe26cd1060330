#include "engines/xla/compile_options.h"

#include <bit>
#include <string_view>

#include "base/error.h"

namespace maxtext {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto and of xla_data.proto.
constexpr std::uint64_t kExecutableBuildOptions = 3;
constexpr std::uint64_t kEnvOptionOverrides = 7;
constexpr std::uint64_t kNumReplicas = 4;
constexpr std::uint64_t kNumPartitions = 5;
constexpr std::uint64_t kDeviceAssignment = 9;
constexpr std::uint64_t kReplicaCount = 1;
constexpr std::uint64_t kComputationCount = 2;
constexpr std::uint64_t kComputationDevices = 3;
constexpr std::uint64_t kReplicaDeviceIds = 1;
constexpr std::uint64_t kMapKey = 1;
constexpr std::uint64_t kMapValue = 2;
constexpr std::uint64_t kStringOverride = 1;
constexpr std::uint64_t kBoolOverride = 2;
constexpr std::uint64_t kIntOverride = 3;
constexpr std::uint64_t kDoubleOverride = 4;

// Wire types.
constexpr std::uint64_t kVarint = 0;
constexpr std::uint64_t kFixed64 = 1;
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

/// A string or a nested message.
void append_bytes(std::string& message, std::uint64_t field, std::string_view bytes) {
  append_varint(message, field << 3 | kLengthDelimited);
  append_varint(message, bytes.size());
  message.append(bytes);
}

void append_double(std::string& message, std::uint64_t field, double value) {
  append_varint(message, field << 3 | kFixed64);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) message.push_back(static_cast<char>(bits >> shift));
}

struct OverrideWriter {
  std::string& message;

  void operator()(bool value) const { append_integer(message, kBoolOverride, value ? 1 : 0); }
  void operator()(std::int64_t value) const {
    append_integer(message, kIntOverride, static_cast<std::uint64_t>(value));
  }
  void operator()(double value) const { append_double(message, kDoubleOverride, value); }
  void operator()(const std::string& value) const { append_bytes(message, kStringOverride, value); }
};

/// One list of devices for each computation, that is partition; there is one.
std::string device_assignment(const std::vector<std::int64_t>& device_ids) {
  std::string packed;
  for (const std::int64_t id : device_ids) append_varint(packed, static_cast<std::uint64_t>(id));
  std::string computation;
  append_bytes(computation, kReplicaDeviceIds, packed);
  std::string assignment;
  append_integer(assignment, kReplicaCount, device_ids.size());
  append_integer(assignment, kComputationCount, 1);
  append_bytes(assignment, kComputationDevices, computation);
  return assignment;
}

}  // namespace

std::string serialize(const XlaCompileOptions& options) {
  if (options.replicas < 1) fail("xla: a program for {} replicas", options.replicas);
  std::string build;
  append_integer(build, kNumReplicas, static_cast<std::uint64_t>(options.replicas));
  append_integer(build, kNumPartitions, 1);
  if (!options.device_ids.empty()) {
    if (std::ssize(options.device_ids) != options.replicas) {
      fail("xla: {} device ids for {} replicas", options.device_ids.size(), options.replicas);
    }
    append_bytes(build, kDeviceAssignment, device_assignment(options.device_ids));
  }
  std::string message;
  append_bytes(message, kExecutableBuildOptions, build);
  for (const auto& [name, value] : options.flags) {
    std::string override_value;
    std::visit(OverrideWriter{override_value}, value);
    std::string entry;
    append_bytes(entry, kMapKey, name);
    append_bytes(entry, kMapValue, override_value);
    append_bytes(message, kEnvOptionOverrides, entry);
  }
  return message;
}

}  // namespace maxtext
