// Pseudo-random bits as a pure function of a counter (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number
// Generators", 2014). The same on every machine: initial weights, shuffles and synthetic data are made of it.
#pragma once

#include <cstdint>

namespace maxtext {

/// The increment of splitmix64's state: 2^64 divided by the golden ratio, odd.
inline constexpr std::uint64_t kSplitmix64Increment = 0x9e3779b97f4a7c15U;

/// Its finaliser, a bijection in which each bit of x changes half of the result's.
constexpr std::uint64_t splitmix64_finalise(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The output of a generator whose state is x.
constexpr std::uint64_t splitmix64(std::uint64_t x) { return splitmix64_finalise(x + kSplitmix64Increment); }

}  // namespace maxtext
