#include "tensor/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "testing/compare.h"
#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

std::string length_prefix(std::uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  return length_prefix(header.size()) + header + std::string(data_bytes, '\1');
}

std::string error_of(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Safetensors, ReadsAFileWrittenByHand) {
  const TemporaryDirectory directory;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I32","shape":[2],"data_offsets":[4,12]},)"
      R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},"empty":{"dtype":"F32","shape":[0,3],"data_offsets":[12,12]}})";
  const std::string data("\x80\x3f\x00\xc0\x07\x00\x00\x00\xff\xff\xff\xff", 12);
  write_file(directory.path() / "x.safetensors", length_prefix(header.size()) + header + data);
  const SafetensorsFile file(directory.path() / "x.safetensors");
  ASSERT_EQ(file.entries().size(), 3U);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.at("a").spec, (TensorSpec{{1, 2}, DType::bfloat16}));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_THAT(read_as_float(file, "a"), ElementsAre(1.0F, -2.0F));
  EXPECT_THAT(read_as_int64(file, "b"), ElementsAre(7, -1));
  EXPECT_TRUE(read_as_float(file, "empty").empty());
  EXPECT_THROW(read_as_int64(file, "a"), Error);
  EXPECT_THROW(file.at("c"), Error);
}

TEST(Safetensors, AFileOfMetadataAloneHasNoTensors) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "x.safetensors", file_of(R"({"__metadata__":{"format":"pt"}})", 0));
  const SafetensorsFile file(directory.path() / "x.safetensors");
  EXPECT_TRUE(file.entries().empty());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  write_file(directory.path() / "x.safetensors", file_of(R"({"__metadata__":{"format":"pt"}})", 1));
  EXPECT_THAT(error_of(directory.path() / "x.safetensors"), HasSubstr("tensors take 0 bytes, but the file has 1"));
}

TEST(Safetensors, RoundTripIsBitwiseAndAligned) {
  const TemporaryDirectory directory;
  const std::vector<std::uint8_t> odd{1, 2, 3};
  const std::vector<float> floats{0.5F, -0.0F, std::numeric_limits<float>::quiet_NaN(), 3e-42F};
  const std::vector<double> doubles{1.0 / 3};
  const std::vector<NamedBytes> tensors{
      {"odd \"name\"", {{3}, DType::uint8}, std::as_bytes(std::span(odd))},
      {"floats", {{2, 2}, DType::float32}, std::as_bytes(std::span(floats))},
      {"scalar", {{}, DType::float64}, std::as_bytes(std::span(doubles))},
  };
  const auto path = directory.path() / "x.safetensors";
  write_safetensors(path, tensors, {{"k", "v"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"k", "v"}}));
  for (const NamedBytes& tensor : tensors) {
    const SafetensorsEntry& entry = file.at(tensor.name);
    EXPECT_EQ(entry.spec, tensor.spec);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % dtype_size(entry.spec.dtype), 0U);
    EXPECT_TRUE(std::equal(entry.bytes.begin(), entry.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  EXPECT_TRUE(testing::bitwise_equal(read_as_float(file, "floats"), floats));
}

TEST(Safetensors, WriterRefusesWhatItCannotStandFor) {
  const TemporaryDirectory directory;
  const std::vector<float> floats(3);
  const NamedBytes good{"a", {{3}, DType::float32}, std::as_bytes(std::span(floats))};
  NamedBytes wrong = good;
  wrong.spec.shape = {4};
  const auto path = directory.path() / "x.safetensors";
  EXPECT_THROW(write_safetensors(path, std::vector{wrong}), Error);
  EXPECT_THROW(write_safetensors(path, std::vector{good, good}), Error);
  EXPECT_THROW(write_safetensors(directory.path() / "no" / "x.safetensors", std::vector{good}), Error);
  EXPECT_THROW(write_safetensors("/dev/full", std::vector{good}), Error);
}

struct Malformed {
  const char* description;
  std::string contents;
  std::vector<std::string> says;
};

std::vector<Malformed> malformed_files() {
  const auto tensor = [](const std::string& fields) { return R"({"w":{)" + fields + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  return {
      {"empty", "", {"at least 8 bytes", "has 0"}},
      {"shorter than its length", "1234567", {"has 7"}},
      {"header too long", length_prefix(100'000'001) + "{}", {"claims 100000001", "at most 100000000"}},
      {"huge length", length_prefix(~0ULL) + "{}", {"claims 18446744073709551615"}},
      {"truncated header", length_prefix(50) + "{}", {"header takes 50 bytes", "only 2"}},
      {"not JSON", file_of("{\"w\":", 0), {"the safetensors header is not valid JSON at byte 6"}},
      {"number out of range",
       file_of("{\"w\":1e999}", 0),
       {"the safetensors header is not valid JSON: a number in it is out of range"}},
      {"not UTF-8", file_of("{\"\xff\":1}", 0), {"not valid JSON"}},
      {"not an object", file_of("[1]", 0), {"JSON array"}},
      {"twice", file_of(R"({"w":{)" + good + R"(},"w":{)" + good + "}}", 8), {"'w' occurs twice"}},
      {"entry not an object", file_of(R"({"w":3})", 0), {"tensor 'w'", "JSON number"}},
      {"no dtype", file_of(tensor(R"("shape":[2],"data_offsets":[0,8])"), 8), {"tensor 'w'", "'dtype' is missing"}},
      {"no shape", file_of(tensor(R"("dtype":"F32","data_offsets":[0,8])"), 8), {"tensor 'w'", "'shape' is missing"}},
      {"no offsets", file_of(tensor(R"("dtype":"F32","shape":[2])"), 8), {"tensor 'w'", "'data_offsets' is missing"}},
      {"unknown dtype",
       file_of(tensor(R"("dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2])"), 2),
       {"tensor 'w'", "F8_E4M3", "BF16"}},
      {"negative dimension",
       file_of(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8),
       {"tensor 'w'", "-2"}},
      {"nine dimensions",
       file_of(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), 8),
       {"tensor 'w'", "9 dimensions", "at most 8"}},
      {"fractional dimension",
       file_of(tensor(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"), 8),
       {"tensor 'w'", "2.5"}},
      {"overflowing shape",
       file_of(tensor(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0])"), 0),
       {"tensor 'w'", "more than 2^63 bytes"}},
      {"shape wraps to its size",
       file_of(tensor(R"("dtype":"F32","shape":[9223372036854775810],"data_offsets":[0,8])"), 8),
       {"tensor 'w'", "too large"}},
      {"offsets not a pair",
       file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8])"), 8),
       {"tensor 'w'", "not [begin, end]"}},
      {"offsets reversed",
       file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8),
       {"tensor 'w'", "begin after their end"}},
      {"size against shape",
       file_of(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8),
       {"tensor 'w'", "float32[3] takes 12 bytes", "span 8"}},
      {"truncated data", file_of(tensor(good), 7), {"tensor 'w'", "truncated", "end at 8", "only 7"}},
      {"trailing data", file_of(tensor(good), 9), {"tensors take 8 bytes", "file has 9"}},
      {"overlap",
       file_of(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"w":{)" + good + "}}", 12),
       {"tensor 'v'", "begin at 4, expected 8", "overlap"}},
      {"hole",
       file_of(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},"w":{)" + good + "}}", 20),
       {"tensor 'v'", "begin at 12, expected 8", "hole"}},
      {"metadata not strings", file_of(R"({"__metadata__":{"a":1}})", 0), {"__metadata__", "'a'"}},
  };
}

TEST(Safetensors, EveryMalformedFileIsRefusedWithItsReason) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "broken.safetensors";
  for (const Malformed& malformed : malformed_files()) {
    write_file(path, malformed.contents);
    const std::string error = error_of(path);
    EXPECT_THAT(error, HasSubstr(path.string())) << malformed.description;
    for (const std::string& part : malformed.says) EXPECT_THAT(error, HasSubstr(part)) << malformed.description;
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  const std::vector<float> floats(5);
  write_safetensors(path, std::vector<NamedBytes>{{"a", {{5}, DType::float32}, std::as_bytes(std::span(floats))}});
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    EXPECT_NE(error_of(path), "no error") << size;
  }
  write_file(path, whole);
  EXPECT_EQ(error_of(path), "no error");
}

TEST(Safetensors, MissingFile) {
  EXPECT_THAT(error_of("/nonexistent/x.safetensors"), AllOf(HasSubstr("/nonexistent"), HasSubstr("No such file")));
  EXPECT_THAT(error_of("/"), HasSubstr("expected a file"));
}

class SafetensorsSetTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& tensor, float value) {
    const std::vector<float> data{value};
    write_safetensors(path() / file,
                      std::vector<NamedBytes>{{tensor, {{1}, DType::float32}, std::as_bytes(std::span(data))}});
  }
  void write_index(const std::string& map) {
    write_file(path() / "model.safetensors.index.json", R"({"weight_map":)" + map + "}");
  }
  std::string error() const {
    try {
      const SafetensorsSet set(path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(SafetensorsSetTest, OpensSingleAndShardedAndFile) {
  write("model-1.safetensors", "a", 1);
  write("model-2.safetensors", "b", 2);
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const SafetensorsSet sharded(path());
  EXPECT_THAT(sharded.names(), ElementsAre("a", "b"));
  EXPECT_THAT(read_as_float(sharded, "b"), ElementsAre(2.0F));
  EXPECT_THAT(read_as_float(SafetensorsSet(path() / "model-1.safetensors"), "a"), ElementsAre(1.0F));
  EXPECT_THROW(sharded.at("c"), Error);
  write("model.safetensors", "c", 3);
  EXPECT_THAT(SafetensorsSet(path()).names(), ElementsAre("c"));
}

TEST_F(SafetensorsSetTest, SaysWhatIsWrong) {
  EXPECT_THAT(error(), AllOf(HasSubstr(path().string()), HasSubstr("neither model.safetensors")));
  write("model-1.safetensors", "a", 1);
  write_index(R"({"a":"model-2.safetensors"})");
  EXPECT_THAT(error(), HasSubstr("model-2.safetensors"));
  write_index(R"({"b":"model-1.safetensors"})");
  EXPECT_THAT(error(), AllOf(HasSubstr("'b'"), HasSubstr("model-1.safetensors, which does not have it")));
  write_index(R"({"a":"../model-1.safetensors"})");
  EXPECT_THAT(error(), HasSubstr("not the name of a file in this directory"));
  write_index("3");
  EXPECT_THAT(error(), HasSubstr("'weight_map' is missing"));
  write_file(path() / "model.safetensors.index.json", "{");
  EXPECT_THAT(error(), HasSubstr("not valid JSON"));
  EXPECT_THROW(SafetensorsSet(path() / "missing"), Error);
}

TEST(SafetensorsFixtures, EveryGoldenFileIsReadable) {
  int files = 0;
  for (const char* pattern : {"maxtext/*.safetensors", "maxtext/*/*.safetensors", "hf/*/*/*.safetensors"}) {
    for (const auto& path : testing::find_fixtures(pattern)) {
      const SafetensorsFile file(path);
      for (const SafetensorsEntry& entry : file.entries()) {
        EXPECT_EQ(static_cast<std::int64_t>(entry.bytes.size()), entry.spec.bytes()) << path << entry.name;
      }
      ++files;
    }
  }
  EXPECT_GT(files, 10);
}

}  // namespace
}  // namespace maxtext
