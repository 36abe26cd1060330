// XXH64 (github.com/Cyan4973/xxHash, the specification's 64-bit variant, seed 0): about as fast as memory can be read,
// so that checksums cost a save nothing. `xxhsum -H1 FILE` prints the same digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace maxtext {

/// Fed in pieces of any size; the result depends on the concatenation only.
class Checksum {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  void consume_block(const std::byte* block);

  static constexpr std::size_t kBlock = 32;
  std::array<std::uint64_t, 4> lanes_{0x60EA27EEADC0B5D6ULL, 0xC2B2AE3D27D4EB4FULL, 0, 0x61C8864E7A143579ULL};
  std::array<std::byte, kBlock> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

std::string checksum_text(std::span<const std::byte> bytes);

}  // namespace maxtext
