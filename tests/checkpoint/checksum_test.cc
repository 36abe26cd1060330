#include "checkpoint/checksum.h"

#include <gtest/gtest.h>

#include <string_view>

namespace maxtext {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Checksum, PublishedVectorsOfXxh64) {
  EXPECT_EQ(checksum_text(bytes_of("")), "ef46db3751d8e999");
  EXPECT_EQ(checksum_text(bytes_of("a")), "d24ec4f1a98c6e5b");
  EXPECT_EQ(checksum_text(bytes_of("abc")), "44bc2cf5ad770999");
  EXPECT_EQ(checksum_text(bytes_of("Nobody inspects the spammish repetition")), "fbcea83c8a378bf1");
}

TEST(Checksum, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const std::string whole = checksum_text(bytes_of(text));
  for (std::size_t piece = 1; piece < 80; ++piece) {
    Checksum checksum;
    for (std::size_t at = 0; at < text.size(); at += piece) checksum.update(bytes_of(text.substr(at, piece)));
    ASSERT_EQ(checksum.text(), whole) << piece;
  }
}

}  // namespace
}  // namespace maxtext
