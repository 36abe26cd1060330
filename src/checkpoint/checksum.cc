#include "checkpoint/checksum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace maxtext {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87ULL;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FULL;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9ULL;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63ULL;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5ULL;

template <typename Word>
Word load(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof(Word));
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

std::uint64_t merge_round(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint64_t consume_tail(std::uint64_t hash, const std::byte* tail, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, tail += 8) {
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(tail)), 27) * kPrime1 + kPrime4;
  }
  if (bytes >= 4) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(tail) * kPrime1), 23) * kPrime2 + kPrime3;
    bytes -= 4;
    tail += 4;
  }
  for (; bytes > 0; --bytes, ++tail) {
    hash = std::rotl(hash ^ (static_cast<std::uint64_t>(*tail) * kPrime5), 11) * kPrime1;
  }
  return hash;
}

}  // namespace

void Checksum::consume_block(const std::byte* block) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane] = round(lanes_[lane], load<std::uint64_t>(block + 8 * lane));
  }
}

void Checksum::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (pending_bytes_ > 0) {
    const std::size_t taken = std::min(bytes.size(), kBlock - pending_bytes_);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(pending_bytes_));
    pending_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (pending_bytes_ < kBlock) return;
    consume_block(pending_.data());
    pending_bytes_ = 0;
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) consume_block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
  pending_bytes_ = bytes.size();
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = kPrime5;
  if (total_bytes_ >= kBlock) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge_round(hash, lane);
  }
  return avalanche(consume_tail(hash + total_bytes_, pending_.data(), pending_bytes_));
}

std::string Checksum::text() const { return fmt::format("{:016x}", value()); }

std::string checksum_text(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.update(bytes);
  return checksum.text();
}

}  // namespace maxtext
