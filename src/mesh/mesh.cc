#include "mesh/mesh.h"

#include <algorithm>

#include "base/error.h"

namespace maxtext {

std::string_view axis_name(Axis axis) {
  constexpr std::array<std::string_view, kAxisCount> kNames{"data", "fsdp", "context", "tensor", "kv_replica"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string_view configured_axis_name(std::size_t index) { return axis_name(static_cast<Axis>(index)); }

std::string to_string(AxisSet axes) {
  std::string text;
  for (int i = 0; i < kAxisCount; ++i) {
    const Axis axis = static_cast<Axis>(i);
    if (!axes.contains(axis)) continue;
    if (!text.empty()) text += '+';
    text += axis_name(axis);
  }
  return text;
}

Mesh::Mesh(std::array<int, 4> sizes, int kv_replicas) : sizes_{sizes[0], sizes[1], sizes[2], sizes[3], kv_replicas} {
  for (int i = 0; i < kAxisCount; ++i) {
    const int size = sizes_[static_cast<std::size_t>(i)];
    if (size < 1) fail("mesh axis {} has size {}; it must be at least 1", axis_name(static_cast<Axis>(i)), size);
  }
  if (sizes[3] % kv_replicas != 0) fail("a tensor axis of {} has no {} replicas of KV heads", sizes[3], kv_replicas);
  sizes_[static_cast<std::size_t>(Axis::tensor)] = sizes[3] / kv_replicas;
}

int Mesh::size(AxisSet axes) const {
  int product = 1;
  for (int i = 0; i < kAxisCount; ++i) {
    if (axes.contains(static_cast<Axis>(i))) product *= sizes_[static_cast<std::size_t>(i)];
  }
  return product;
}

int Mesh::device_count() const {
  int product = 1;
  for (const int size : sizes_) product *= size;
  return product;
}

Coordinates Mesh::coordinates(int device) const {
  Coordinates result{};
  for (std::size_t i = kAxisCount; i-- > 0;) {
    result[i] = device % sizes_[i];
    device /= sizes_[i];
  }
  return result;
}

int Mesh::device(const Coordinates& coordinates) const {
  int device = 0;
  for (std::size_t i = 0; i < kAxisCount; ++i) device = device * sizes_[i] + coordinates[i];
  return device;
}

std::vector<int> Mesh::group(int device, AxisSet axes) const {
  const Coordinates mine = coordinates(device);
  std::vector<int> members;
  for (int other = 0; other < device_count(); ++other) {
    const Coordinates theirs = coordinates(other);
    bool member = true;
    for (std::size_t i = 0; i < kAxisCount; ++i) {
      member = member && (axes.contains(static_cast<Axis>(i)) || theirs[i] == mine[i]);
    }
    if (member) members.push_back(other);
  }
  return members;
}

int Mesh::group_rank(int device, AxisSet axes) const {
  const std::vector<int> members = group(device, axes);
  return static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin());
}

}  // namespace maxtext
