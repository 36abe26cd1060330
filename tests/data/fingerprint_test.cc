// What tells a resumed run that its data are not those it was trained on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/content_hash.h"
#include "data/open_dataset.h"
#include "data/sampled_hash.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using ::testing::MatchesRegex;
using testing::write_file;

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class Fingerprint : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  std::string of_tokens(const std::vector<fs::path>& files, IntegerType type = IntegerType::uint16) const {
    DatasetOptions options;
    options.type = "tokens";
    options.token_type = type;
    options.separator_id = 0;
    return of(options, files);
  }
  std::string of_text(const fs::path& file) const {
    DatasetOptions options;
    options.type = "text";
    options.tokenizer_type = "bytes";
    options.train_format.document_separator = "blank_line";
    return of(options, {file});
  }

 private:
  std::string of(DatasetOptions options, const std::vector<fs::path>& files) const {
    options.sequence_length = 16;
    options.vocab_size = 512;
    options.cache_directory = path("cache");
    for (const fs::path& file : files) options.train_files.push_back(file.string());
    return open_dataset(options, Split::train)->fingerprint();
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(Fingerprint, OfTokensIsThatOfTheirContents) {
  const std::vector<std::uint16_t> tokens = {5, 6, 0, 7, 8, 9, 0};
  write_file(path("a.bin"), raw(tokens));
  const std::string found = of_tokens({path("a.bin")});
  EXPECT_THAT(found, MatchesRegex("2 documents, 7 tokens, contents [0-9a-f]+"));
  // Neither place nor time nor the type that numbers are stored in.
  write_file(path("b.bin"), raw(tokens));
  EXPECT_EQ(of_tokens({path("b.bin")}), found);
  write_file(path("wide.bin"), raw(std::vector<std::uint32_t>(tokens.begin(), tokens.end())));
  EXPECT_EQ(of_tokens({path("wide.bin")}, IntegerType::uint32), found);
  // Every token counts, and where documents end.
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto changed = tokens;
    changed[i] = static_cast<std::uint16_t>(changed[i] + 1);
    write_file(path("c.bin"), raw(changed));
    EXPECT_NE(of_tokens({path("c.bin")}), found) << i;
  }
  write_file(path("more.bin"), raw(std::vector<std::uint16_t>{3, 0}));
  EXPECT_NE(of_tokens({path("a.bin"), path("more.bin")}), found);
}

TEST_F(Fingerprint, OfTextIsThatOfItsTokens) {
  write_file(path("a.txt"), "one\n\ntwo\n");
  write_file(path("b.txt"), "one\n\ntwo\n");
  write_file(path("c.txt"), "one\n\ntow\n");
  EXPECT_THAT(of_text(path("a.txt")), MatchesRegex("2 documents, [0-9]+ tokens, contents [0-9a-f]+"));
  EXPECT_EQ(of_text(path("b.txt")), of_text(path("a.txt")));
  EXPECT_NE(of_text(path("c.txt")), of_text(path("a.txt")));
}

TEST_F(Fingerprint, OfLargeDataSeesInsertionsAnywhere) {
  const auto count = static_cast<std::size_t>(3 * kSampledParts * kSampledElements);
  std::vector<std::uint16_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::uint16_t>(i * 2654435761U >> 16 & 511);
  const auto hash_of = [&](const std::vector<std::uint16_t>& values) {
    write_file(path("large.bin"), raw(values));
    return sampled_hash(IntegerArray::open_raw(path("large.bin"), IntegerType::uint16), kContentHashStart);
  };
  const std::uint64_t whole = hash_of(tokens);
  EXPECT_EQ(hash_of(tokens), whole);
  for (const std::size_t place : {std::size_t{0}, count / 3, count - 1}) {
    // One token too many here, one less at the end, so that the size is the same.
    auto changed = tokens;
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(place), 511);
    changed.pop_back();
    EXPECT_NE(hash_of(changed), whole) << place;
  }
  auto last = tokens;
  last.back() ^= 1;
  EXPECT_NE(hash_of(last), whole);
  const auto bytes = std::as_bytes(std::span(tokens));
  EXPECT_NE(sampled_hash(bytes, kContentHashStart), sampled_hash(bytes.first(bytes.size() - 1), kContentHashStart));
}

}  // namespace
}  // namespace maxtext
