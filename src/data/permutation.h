// Pseudo-random numbers and orders as pure functions of keys, the same on every platform and needing no memory.
#pragma once

#include <cstdint>

namespace maxtext {

/// A well-mixed 64-bit function of two numbers (two rounds of SplitMix64's finaliser; Steele, Lea, Flood 2014).
std::uint64_t mix_keys(std::uint64_t a, std::uint64_t b);

/// An order of 0..size-1 given by `key`, computed element by element in O(1) time and memory: a Feistel network over
/// the next power of two with cycle walking (Black and Rogaway 2002), less than two passes on average.
class Permutation {
 public:
  Permutation(std::int64_t size, std::uint64_t key);

  std::int64_t size() const { return size_; }

  /// The element in place `position`, 0 <= position < size.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::int64_t size_;
  std::uint64_t key_;
  int left_bits_;
  int right_bits_;
};

}  // namespace maxtext
