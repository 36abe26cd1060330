// A fingerprint of data too large to be read for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/integer_array.h"

namespace maxtext {

/// Hashes the length and kSampledParts stretches of kSampledElements each, spread evenly from the first element to the
/// last; all of an array that is not longer than these. So an array of up to a million elements is hashed whole, and in
/// a longer one what is inserted or removed anywhere shows, since it moves all that follows, while a replacement of the
/// same length may not. Costs a few milliseconds and kSampledParts places of the file. The integer type that elements
/// are stored in does not matter.
std::uint64_t sampled_hash(const IntegerArray& values, std::uint64_t hash);

/// The same for bytes that lie in memory or a mapped file.
std::uint64_t sampled_hash(std::span<const std::byte> bytes, std::uint64_t hash);

inline constexpr std::int64_t kSampledParts = 64;
inline constexpr std::int64_t kSampledElements = 16384;

}  // namespace maxtext
