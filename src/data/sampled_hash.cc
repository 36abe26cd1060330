#include "data/sampled_hash.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/content_hash.h"

namespace maxtext {
namespace {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t hash) {
  return content_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, hash);
}

std::uint64_t hash_number(std::int64_t number, std::uint64_t hash) {
  return hash_bytes(std::as_bytes(std::span(&number, 1)), hash);
}

/// Calls visit(first, count) for the stretches of `size` elements that are looked at.
template <typename Visit>
void for_each_sample(std::int64_t size, Visit visit) {
  if (size <= kSampledParts * kSampledElements) {
    for (std::int64_t first = 0; first < size; first += kSampledElements) {
      visit(first, std::min(kSampledElements, size - first));
    }
    return;
  }
  const std::int64_t stride = (size - kSampledElements) / (kSampledParts - 1);
  for (std::int64_t part = 0; part + 1 < kSampledParts; ++part) visit(part * stride, kSampledElements);
  visit(size - kSampledElements, kSampledElements);
}

}  // namespace

std::uint64_t sampled_hash(const IntegerArray& values, std::uint64_t hash) {
  hash = hash_number(values.size(), hash);
  std::vector<std::int64_t> part;
  for_each_sample(values.size(), [&](std::int64_t first, std::int64_t count) {
    part.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) part[static_cast<std::size_t>(i)] = values.at(first + i);
    hash = hash_bytes(std::as_bytes(std::span(part)), hash);
  });
  return hash;
}

std::uint64_t sampled_hash(std::span<const std::byte> bytes, std::uint64_t hash) {
  hash = hash_number(std::ssize(bytes), hash);
  for_each_sample(std::ssize(bytes), [&](std::int64_t first, std::int64_t count) {
    hash = hash_bytes(bytes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), hash);
  });
  return hash;
}

}  // namespace maxtext
