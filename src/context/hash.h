// A 64-bit hash of plain data, for comparing plans between processes. Not cryptographic.
#pragma once

#include <cstdint>
#include <span>

namespace maxtext {

/// Hashes a sequence of values: each 64-bit word is mixed in by a multiply and a rotation (the round of xxHash64), and
/// `value` applies its final avalanche. Order, values and array lengths all count.
class Hasher {
 public:
  void add(std::uint64_t word);
  void add(double value);
  /// The length, then the values, two to a word.
  void add(std::span<const std::int32_t> values);
  std::uint64_t value() const;

 private:
  std::uint64_t state_ = 0x27D4EB2F165667C5U;
};

}  // namespace maxtext
