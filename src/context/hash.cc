#include "context/hash.h"

#include <bit>

namespace maxtext {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;

}  // namespace

void Hasher::add(std::uint64_t word) {
  state_ = std::rotl(state_ ^ (std::rotl(word * kPrime2, 31) * kPrime1), 27) * kPrime1 + kPrime4;
}

void Hasher::add(double value) { add(std::bit_cast<std::uint64_t>(value)); }

void Hasher::add(std::span<const std::int32_t> values) {
  add(static_cast<std::uint64_t>(values.size()));
  std::size_t i = 0;
  for (; i + 1 < values.size(); i += 2) {
    const auto low = static_cast<std::uint64_t>(static_cast<std::uint32_t>(values[i]));
    const auto high = static_cast<std::uint64_t>(static_cast<std::uint32_t>(values[i + 1]));
    add(low | (high << 32U));
  }
  if (i < values.size()) add(static_cast<std::uint64_t>(static_cast<std::uint32_t>(values[i])));
}

std::uint64_t Hasher::value() const {
  std::uint64_t h = state_;
  h = (h ^ (h >> 33U)) * kPrime2;
  h = (h ^ (h >> 29U)) * kPrime3;
  return h ^ (h >> 32U);
}

}  // namespace maxtext
