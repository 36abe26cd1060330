#include "data/permutation.h"

#include <bit>
#include <utility>

#include "base/splitmix64.h"

namespace maxtext {
namespace {

constexpr int kRounds = 6;

std::uint64_t low_bits(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

std::uint64_t mix_keys(std::uint64_t a, std::uint64_t b) {
  return splitmix64_finalise(splitmix64(a) ^ (b + kSplitmix64Increment));
}

Permutation::Permutation(std::int64_t size, std::uint64_t key) : size_(size), key_(key) {
  const int bits = size > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1))) : 1;
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  int low = right_bits_;
  int high = left_bits_;
  std::uint64_t right = value & low_bits(low);
  std::uint64_t left = value >> low;
  // Halves of unequal width swap their widths every round; an even number of rounds restores them.
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = (left ^ mix_keys(key_ + static_cast<std::uint64_t>(round), right)) & low_bits(high);
    left = std::exchange(right, mixed);
    std::swap(low, high);
  }
  return (left << low) | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = encrypt(value);
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace maxtext
