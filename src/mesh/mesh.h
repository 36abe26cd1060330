// The logical mesh: named axes and the coordinates of devices in it. A device is not a process.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

/// The axes of the mesh, outermost first, in MaxText's order. An axis' size is its dcn part times its ici part.
/// Tensor parallelism beyond the number of KV heads is two axes: along `tensor` devices hold different KV heads, along
/// `kv_replica` the same one. Everything else is cut over both (kTensorAxes).
enum class Axis : std::uint8_t { data, fsdp, context, tensor, kv_replica };
inline constexpr int kAxisCount = 5;

std::string_view axis_name(Axis axis);

/// A set of axes: the group of a collective is all devices whose coordinates differ from ours in these axes only.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(bit(axis)) {}  // NOLINT(google-explicit-constructor): an axis is a set of one
  constexpr AxisSet operator|(AxisSet other) const { return AxisSet(static_cast<std::uint8_t>(bits_ | other.bits_)); }
  constexpr AxisSet without(AxisSet other) const {
    return AxisSet(static_cast<std::uint8_t>(bits_ & static_cast<std::uint8_t>(~other.bits_)));
  }
  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool operator==(const AxisSet&) const = default;
  constexpr std::uint8_t bits() const { return bits_; }

 private:
  constexpr explicit AxisSet(std::uint8_t bits) : bits_(bits) {}
  static constexpr std::uint8_t bit(Axis axis) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(axis)); }
  std::uint8_t bits_ = 0;
};

constexpr AxisSet operator|(Axis a, Axis b) { return AxisSet(a) | AxisSet(b); }

/// The axes of tensor parallelism.
inline constexpr AxisSet kTensorAxes = Axis::tensor | Axis::kv_replica;
/// The axes that configurations name, outermost first.
inline constexpr std::array<AxisSet, 4> kConfiguredAxes{Axis::data, Axis::fsdp, Axis::context, kTensorAxes};
/// Their names: data, fsdp, context, tensor.
std::string_view configured_axis_name(std::size_t index);

/// "fsdp+context".
std::string to_string(AxisSet axes);

using Coordinates = std::array<int, kAxisCount>;

/// A box of devices, numbered row-major over the axes in the order of Axis.
class Mesh {
 public:
  /// Devices along data, fsdp, context and tensor (both of kTensorAxes), each at least 1. `kv_replicas` divides the
  /// last: so many devices hold the same KV heads. Throws Error for other numbers.
  explicit Mesh(std::array<int, 4> sizes, int kv_replicas = 1);

  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  int size(AxisSet axes) const;
  int device_count() const;

  Coordinates coordinates(int device) const;
  int device(const Coordinates& coordinates) const;

  /// The devices of the group of `device` over `axes`, ascending; the group rank of a device is its index here.
  std::vector<int> group(int device, AxisSet axes) const;

  /// The rank of `device` in its group over `axes`.
  int group_rank(int device, AxisSet axes) const;

 private:
  std::array<int, kAxisCount> sizes_;
};

}  // namespace maxtext
