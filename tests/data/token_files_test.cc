#include "data/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "data/temporary_folder.h"

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TokenFilesTest : public testing::FolderTest {
 protected:
  /// A .npy file as numpy writes it.
  template <typename T>
  std::filesystem::path write_npy(const std::string& name, const std::string& descr, const std::vector<T>& values,
                                  const std::string& shape = "") const {
    const std::string length = shape.empty() ? fmt::format("({},)", values.size()) : shape;
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, length);
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string file = "\x93NUMPY\x01";
    file += '\0';
    file += static_cast<char>(header.size() & 255);
    file += static_cast<char>(header.size() >> 8);
    file += header;
    file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return write(name, file);
  }

  static std::vector<std::vector<std::int32_t>> documents(const TokenStore& store) {
    std::vector<std::vector<std::int32_t>> result;
    for (std::int64_t document = 0; document < store.documents(); ++document) {
      result.emplace_back(static_cast<std::size_t>(store.length(document)));
      store.read(document, 0, result.back());
    }
    return result;
  }

  std::vector<std::vector<std::int32_t>> open(const std::vector<std::filesystem::path>& files,
                                              std::optional<std::int32_t> separator = std::nullopt,
                                              IntegerType type = IntegerType::uint16) const {
    return documents(*open_token_files(files, {100000, type, separator, folder_ / "cache"}));
  }

  using Documents = std::vector<std::vector<std::int32_t>>;
};

TEST_F(TokenFilesTest, ReadsEveryElementType) {
  const Documents expected = {{1, 2, 99999 % 65536}};
  EXPECT_EQ(open({write_npy<std::uint16_t>("a.npy", "<u2", {1, 2, 34463})}), expected);
  EXPECT_EQ(open({write_npy<std::uint32_t>("b.npy", "<u4", {1, 2, 34463})}), expected);
  EXPECT_EQ(open({write_npy<std::int32_t>("c.npy", "<i4", {1, 2, 34463})}), expected);
  EXPECT_EQ(open({write_npy<std::int64_t>("d.npy", "<i8", {1, 2, 34463})}), expected);
  EXPECT_EQ(open({write_array<std::uint16_t>("e.bin", {1, 2, 34463})}), expected);
  EXPECT_EQ(open({write_array<std::uint32_t>("f.bin", {1, 2, 34463})}, std::nullopt, IntegerType::uint32), expected);
}

TEST_F(TokenFilesTest, DocumentsEndAtTheSeparator) {
  const auto file = write_array<std::uint16_t>("a.bin", {5, 6, 0, 0, 7, 0, 8, 9});
  const Documents expected = {{5, 6, 0}, {0}, {7, 0}, {8, 9}};
  EXPECT_EQ(open({file}, 0), expected);
  EXPECT_EQ(open({file}, 0), expected) << "from the kept index";
  EXPECT_EQ(open({file}, 77), (Documents{{5, 6, 0, 0, 7, 0, 8, 9}}));
}

TEST_F(TokenFilesTest, SeparatorsOnEveryEdgeOfTheScannedBlocks) {
  std::vector<std::uint16_t> tokens(200'000, 1);
  for (const std::size_t place : {65535, 65536, 131071, 131073, 199999}) tokens[place] = 2;
  std::vector<std::size_t> lengths;
  for (const auto& document : open({write_array("a.bin", tokens)}, 2)) lengths.push_back(document.size());
  EXPECT_THAT(lengths, ElementsAre(65536, 1, 65535, 2, 68926));
}

TEST_F(TokenFilesTest, AnIndexBesideTheTokensWins) {
  const auto file = write_array<std::uint16_t>("a.bin", {5, 6, 0, 0, 7});
  const Documents expected = {{5}, {6, 0, 0, 7}};
  write_array<std::uint64_t>("a.idx", {0, 1});
  EXPECT_EQ(open({file, folder_ / "a.idx"}, 0), expected);
  std::filesystem::remove(folder_ / "a.idx");
  write_npy<std::int32_t>("a.idx.npy", "<i4", {0, 1});
  EXPECT_EQ(open({file, folder_ / "a.idx.npy"}, 0), expected);
}

TEST_F(TokenFilesTest, SeveralFilesFollowEachOther) {
  EXPECT_EQ(open({write_array<std::uint16_t>("a.bin", {1, 0, 2}), write_npy<std::uint32_t>("b.npy", "<u4", {3, 0})}, 0),
            (Documents{{1, 0}, {2}, {3, 0}}));
}

TEST_F(TokenFilesTest, ReadsWhatNumpyWrites) {
  // numpy 1.26: np.save of np.array([3, 1, 4], np.uint16), byte for byte.
  std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  file += header + "\n" + std::string("\x03\x00\x01\x00\x04\x00", 6);
  EXPECT_EQ(open({write("n.npy", file)}), (Documents{{3, 1, 4}}));
}

TEST_F(TokenFilesTest, CorruptFilesAreNamed) {
  const auto expect = [&](const std::filesystem::path& file, const std::string& message) {
    EXPECT_THAT([&] { open({file}); }, ThrowsMessage<Error>(HasSubstr(file.filename().string() + message)));
  };
  expect(write("odd.bin", "abc"), ": 3 bytes are not a whole number of uint16 elements");
  expect(write("a.npy", "PK"), ": not a .npy file");
  expect(write_npy<float>("f.npy", "<f4", {1.0F}), ": expected an array of uint16");
  expect(write_npy<std::uint16_t>("big.npy", ">u2", {1}), ": expected an array of uint16");
  expect(write_npy<std::uint16_t>("2d.npy", "<u2", {1, 2}, "(1, 2)"), ": expected an array of one dimension");
  expect(write_npy<std::uint16_t>("cut.npy", "<u2", {1, 2}, "(3,)"), ": expected 3 elements of uint16, found 4 bytes");
  expect(write("h.npy", std::string("\x93NUMPY\x01\x00\x76\x00{'descr'", 18)), ": truncated within its .npy header");
  expect(write("a.tokens", "ab"), ": expected a .npy or .bin file");
  write("e.idx", "");
  const auto tokens = write("e.bin", "ab");
  EXPECT_THAT([&] { open({tokens}); }, ThrowsMessage<Error>(HasSubstr("e.idx: expected the starts of documents")));
}

}  // namespace
}  // namespace maxtext
