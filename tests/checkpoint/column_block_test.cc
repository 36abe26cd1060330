// Tensors stored in blocks of columns, and in any mix of these with ranges of whole rows.
#include "checkpoint/column_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/coverage.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/weight_source.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

constexpr std::string_view kName = "model:layers.0+down_proj.weight";

template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// One of [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// Non-empty intervals [begin, end) that follow each other from `begin` to `end`, at most `most`.
  std::vector<std::pair<std::int64_t, std::int64_t>> cut(std::int64_t begin, std::int64_t end, std::int64_t most) {
    std::vector<std::int64_t> cuts{begin, end};
    for (std::int64_t i = between(1, most); i > 1; --i) cuts.push_back(between(begin, end));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      if (cuts[i - 1] < cuts[i]) intervals.emplace_back(cuts[i - 1], cuts[i]);
    }
    return intervals;
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    std::shuffle(values.begin(), values.end(), engine_);
  }

 private:
  std::mt19937 engine_;
};

/// Cuts a tensor by rows, each part by columns in its own way, and each of these blocks in ranges.
std::vector<BlockRange> random_cut(const Shape& shape, Random& random) {
  const std::int64_t columns = all_columns(shape).count;
  std::vector<BlockRange> ranges;
  for (const auto& [row, row_end] : random.cut(0, element_count(shape) / columns, 3)) {
    for (const auto& [column, column_end] : random.cut(0, columns, 4)) {
      const ColumnBlock block{column, column_end - column};
      for (const auto& [first, end] : random.cut(row * block.count, row_end * block.count, 4)) {
        ranges.push_back({block, first, end - first});
      }
    }
  }
  random.shuffle(ranges);
  return ranges;
}

/// Each element's place in the flattened tensor, by the definition of a block.
std::vector<std::size_t> elements_of(const BlockRange& range, const Shape& shape) {
  std::vector<std::size_t> elements;
  const std::int64_t columns = all_columns(shape).count;
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const std::int64_t row = i / range.block.count;
    elements.push_back(static_cast<std::size_t>(row * columns + range.block.begin + i % range.block.count));
  }
  return elements;
}

struct Values {
  TensorSpec spec;
  std::vector<std::byte> bytes;

  Values(const TensorSpec& its_spec, Random& random)
      : spec(its_spec), bytes(static_cast<std::size_t>(its_spec.bytes())) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.between(0, 255));
  }

  std::vector<std::byte> gathered(const BlockRange& range) const {
    std::vector<std::byte> gathered;
    const auto size = static_cast<std::size_t>(dtype_size(spec.dtype));
    for (const std::size_t element : elements_of(range, spec.shape)) {
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(element * size);
      gathered.insert(gathered.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
    }
    return gathered;
  }

  std::vector<float> as_float() const {
    std::vector<float> floats(static_cast<std::size_t>(spec.elements()));
    convert_to_float(bytes, spec.dtype, floats);
    return floats;
  }
};

/// Tensors, and copies of their parts as devices hold them.
class BlockedState {
 public:
  static constexpr int kDevices = 3;

  void add(const std::string& name, Values values, const std::vector<BlockRange>& cut) {
    for (std::size_t i = 0; i < cut.size(); ++i) {
      devices_[i % kDevices].ranges.push_back({std::string(kWeights), name, values.spec, cut[i].first, cut[i].count,
                                               parts_.emplace_back(values.gathered(cut[i])), cut[i].block});
    }
    values_.emplace(name, std::move(values));
  }

  void save(const std::filesystem::path& run) const {
    SaveOptions options;
    options.run_directory = run;
    options.device_count = kDevices;
    CheckpointInfo info;
    info.hf_config = {{"model_type", "llama"}, {"dtype", "float32"}};
    save_checkpoint(options, info, devices_);
  }

  const std::map<std::string, Values>& values() const { return values_; }

 private:
  std::vector<DeviceState> devices_{{0, {}}, {1, {}}, {2, {}}};
  std::list<std::vector<std::byte>> parts_;
  std::map<std::string, Values> values_;
};

BlockedState random_state(Random& random) {
  BlockedState state;
  const std::vector<DType> dtypes{DType::float32, DType::float64, DType::bfloat16, DType::float16};
  const std::vector<Shape> shapes{
      {random.between(1, 9), random.between(1, 9)}, {random.between(1, 20)}, {2, 3, random.between(1, 6)}, {}};
  for (const Shape& shape : shapes) {
    const DType dtype = dtypes[static_cast<std::size_t>(random.between(0, 3))];
    state.add(fmt::format("{}{}", kName, shape.size()), Values({shape, dtype}, random), random_cut(shape, random));
  }
  return state;
}

std::vector<std::byte> read_block(const CheckpointReader& reader, const std::string& name, const BlockRange& range) {
  const auto bytes = static_cast<std::size_t>(range.count * dtype_size(reader.spec(kWeights, name).dtype));
  std::vector<std::byte> read(bytes);
  reader.read_block(kWeights, name, range.block, range.first, range.count, read);
  return read;
}

void expect_blocks(const CheckpointReader& reader, const std::string& name, const Values& values, Random& random) {
  for (const BlockRange& range : random_cut(values.spec.shape, random)) {
    EXPECT_EQ(read_block(reader, name, range), values.gathered(range)) << to_string(range, values.spec.shape);
  }
}

void expect_ranges(const CheckpointReader& reader, const std::string& name, const Values& values, Random& random) {
  const std::vector<float> floats = values.as_float();
  for (const auto& [first, end] : random.cut(0, values.spec.elements(), 4)) {
    const BlockRange range{all_columns(values.spec.shape), first, end - first};
    const std::vector<std::byte> expected = values.gathered(range);
    EXPECT_EQ(read_block(reader, name, {{}, range.first, range.count}), expected);
    std::vector<std::byte> read(expected.size());
    reader.read_range(kWeights, name, first, range.count, read);
    EXPECT_EQ(read, expected);
    std::vector<float> read_floats(static_cast<std::size_t>(range.count));
    reader.read_range_as_float(kWeights, name, first, read_floats);
    const auto expected_floats = std::span(floats).subspan(static_cast<std::size_t>(first), read_floats.size());
    EXPECT_TRUE(testing::bitwise_equal(read_floats, expected_floats, name));
  }
}

void expect_parts(const CheckpointReader& reader, const std::string& name, const Values& values) {
  std::int64_t elements = 0;
  const std::vector<CheckpointReader::Part> parts = reader.parts(kWeights, name);
  for (const CheckpointReader::Part& part : parts) {
    const std::vector<std::byte> expected = values.gathered({part.block, part.first, part.count});
    EXPECT_TRUE(std::ranges::equal(part.bytes, expected));
    elements += part.count;
  }
  EXPECT_EQ(elements, values.spec.elements());
  const std::span<const std::byte> whole = reader.whole(kWeights, name);
  EXPECT_EQ(whole.empty(), parts.size() > 1);
  EXPECT_TRUE(whole.empty() || std::ranges::equal(whole, values.bytes));
}

TEST(ColumnBlocks, AnyCutIsReadAsAnyOtherBitwise) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    const TemporaryDirectory directory = TemporaryDirectory::in_memory();
    Random random(seed);
    const BlockedState state = random_state(random);
    state.save(directory.path());
    const CheckpointReader reader(step_directory(directory.path(), 0));
    reader.verify();
    for (const auto& [name, values] : state.values()) {
      expect_blocks(reader, name, values, random);
      expect_ranges(reader, name, values, random);
      expect_parts(reader, name, values);
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(ColumnBlocks, ExportAndLoadingReadThem) {
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  Random random(1);
  BlockedState state;
  const Shape shape{6, 8};
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    // Random bits would hold NaNs, which a conversion may quieten.
    Values values({shape, dtype}, random);
    std::vector<float> floats;
    for (int i = 0; i < 48; ++i) floats.push_back(static_cast<float>(i) - 20);
    convert_from_float(floats, dtype, values.bytes);
    std::vector<BlockRange> cut;
    for (const std::int64_t first : {0, 12}) {
      cut.push_back({{0, 4}, first, 12});
      cut.push_back({{4, 4}, first, 12});
    }
    state.add(std::string(dtype_name(dtype)), std::move(values), cut);
  }
  const std::filesystem::path run = directory.path() / "run";
  state.save(run);
  const auto expect_weights = [&](const WeightSource& weights) {
    for (const auto& [name, values] : state.values()) {
      std::vector<float> read(48);
      weights.read_range_as_float(name, 0, read);
      EXPECT_EQ(read, values.as_float()) << name;
    }
  };
  const auto weights = open_weights(run);
  expect_weights(*weights);
  EXPECT_EQ(weights->mapped("float32"), nullptr);
  PosixFileLayer files;
  export_hf_directory(*weights, directory.path() / "exported", {}, files);
  expect_weights(*open_weights(directory.path() / "exported"));
  SaveOptions weights_only;
  weights_only.run_directory = directory.path() / "weights_only";
  save_weights_only(step_directory(run, 0), weights_only);
  expect_weights(*open_weights(weights_only.run_directory));
}

/// How often each element is stored.
std::vector<int> owners_of(const std::vector<BlockRange>& ranges, const Shape& shape) {
  std::vector<int> owners(static_cast<std::size_t>(element_count(shape)));
  for (const BlockRange& range : ranges) {
    for (const std::size_t element : elements_of(range, shape)) ++owners[element];
  }
  return owners;
}

/// A cut with something wrong in it, most of the time.
std::vector<BlockRange> spoiled_cut(const Shape& shape, Random& random) {
  std::vector<BlockRange> ranges = random_cut(shape, random);
  BlockRange& one = ranges.front();
  const BlockRange good = one;
  switch (random.between(0, 4)) {
    case 0:
      ranges.push_back(random_cut(shape, random).front());
      break;
    case 1:
      ranges.erase(ranges.begin());
      break;
    case 2:
      one.block.begin += random.between(-1, 1);
      break;
    case 3:
      one.first += random.between(-1, 1);
      break;
    default:
      one = random_cut(shape, random).front();
  }
  if (!ranges.empty() && !is_within(ranges.front(), shape)) ranges.front() = good;
  return ranges;
}

/// The error is true of an element that it names.
void expect_right_element(const std::string& error, const std::vector<int>& owners) {
  unsigned long first = 0;
  unsigned long last = 0;
  const std::string prefix = "weights 'w': ";
  ASSERT_EQ(error.substr(0, prefix.size()), prefix);
  const char* const text = error.c_str() + prefix.size();
  if (std::sscanf(text, "the element %lu is stored", &first) == 1) {
    EXPECT_GT(owners.at(first), 1) << error;
  } else {
    ASSERT_EQ(std::sscanf(text, "nobody stores the elements %lu to %lu", &first, &last), 2) << error;
    EXPECT_EQ(owners.at(first), 0) << error;
    EXPECT_EQ(owners.at(last), 0) << error;
  }
}

TEST(ColumnBlocks, CoverageIsExact) {
  int right = 0;
  int wrong = 0;
  for (unsigned seed = 0; seed < 5000; ++seed) {
    Random random(seed);
    const Shape shape{random.between(1, 4), random.between(1, 5)};
    const std::vector<BlockRange> ranges = spoiled_cut(shape, random);
    const std::vector<int> owners = owners_of(ranges, shape);
    const std::string error = error_of([&] { check_coverage("weights", "w", shape, ranges); });
    const bool once = std::ranges::all_of(owners, [](int count) { return count == 1; });
    ASSERT_EQ(error == "no error", once) << error << ", seed " << seed;
    ++(once ? right : wrong);
    if (!once) expect_right_element(error, owners);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(right, 500);
  EXPECT_GT(wrong, 2000);
}

TEST(ColumnBlocks, GapsAndOverlapsAreNamedByElementsOfTheTensor) {
  const auto error = [](const std::vector<BlockRange>& ranges) {
    return error_of([&] { check_coverage("weights", "w", {3, 8}, ranges); });
  };
  const BlockRange left{{0, 4}, 0, 12};
  EXPECT_EQ(error({left, {{4, 4}, 0, 12}}), "no error");
  EXPECT_EQ(error({left}), "weights 'w': nobody stores the elements 4 to 23 in the columns 4 to 7");
  EXPECT_EQ(error({left, {{4, 4}, 0, 5}}), "weights 'w': nobody stores the elements 13 to 23 in the columns 4 to 7");
  EXPECT_EQ(error({left, {{4, 4}, 0, 12}, {{6, 1}, 2, 1}}), "weights 'w': the element 22 is stored twice");
  EXPECT_EQ(error({left, {{3, 5}, 0, 15}}), "weights 'w': the element 3 is stored twice");
  EXPECT_EQ(error({{{0, 8}, 0, 16}, {{0, 3}, 6, 3}}),
            "weights 'w': nobody stores the elements 19 to 23 in the columns 3 to 7");
}

class SavedBlocks : public ::testing::Test {
 protected:
  /// A float32[3, 8] whose devices have the columns 0 to 3, 4 to 5 and 6 to 7.
  SavedBlocks() : values_({{3, 8}, DType::float32}, random_) {
    state_.add(std::string(kName), values_, {{{0, 4}, 0, 12}, {{4, 2}, 0, 6}, {{6, 2}, 0, 6}});
  }

  std::filesystem::path run() const { return directory_.path(); }
  std::filesystem::path items() const { return step_directory(run(), 0) / "items"; }
  std::filesystem::path path_of(int device) const { return items() / range_file_name(kWeights, device, 3); }

  std::string error_with_block(ColumnBlock block, std::int64_t first, std::int64_t count) const {
    const auto bytes = std::span(values_.bytes).first(static_cast<std::size_t>(count < 0 ? 0 : count) * 4);
    SaveOptions options;
    options.run_directory = run();
    return error_of([&] {
      save_checkpoint(options, {}, {{0, {{std::string(kWeights), "w", values_.spec, first, count, bytes, block}}}});
    });
  }

  Random random_{7};
  Values values_;
  BlockedState state_;

 private:
  TemporaryDirectory directory_ = TemporaryDirectory::in_memory();
};

TEST_F(SavedBlocks, AreNamedByTheirColumnsAndMarkedByTheManifest) {
  state_.save(run());
  const SafetensorsFile file(path_of(1));
  EXPECT_EQ(file.entries().front().name, std::string(kName) + "@0+6:4+2");
  EXPECT_EQ(file.entries().front().spec, (TensorSpec{{6}, DType::float32}));
  EXPECT_THAT(read_file(items() / "manifest.json"), HasSubstr("\"format_version\": 2,"));
}

TEST_F(SavedBlocks, AllColumnsAreNoBlock) {
  BlockedState explicit_columns;
  explicit_columns.add("w", values_, {{{0, 8}, 0, 10}, {{0, 8}, 10, 14}});
  explicit_columns.add("v", values_, {{{0, 8}, 0, 24}});
  explicit_columns.save(run());
  const std::string manifest = read_file(items() / "manifest.json");
  EXPECT_THAT(manifest, HasSubstr("\"format_version\": 1,"));
  const SafetensorsFile file(path_of(0));
  EXPECT_TRUE(file.contains("w@0+10"));
  EXPECT_EQ(file.at("v").spec, values_.spec);
}

TEST_F(SavedBlocks, BlocksAndRangesBeyondAreRefusedBeforeWriting) {
  EXPECT_THAT(error_with_block({6, 3}, 0, 9),
              HasSubstr("weights 'w': the range of 9 elements from 0 in the block of 3 columns from 6 is not within "
                        "float32[3, 8]"));
  EXPECT_THAT(error_with_block({0, 9}, 0, 9), HasSubstr("not within"));
  EXPECT_THAT(error_with_block({-1, 3}, 0, 9), HasSubstr("not within"));
  EXPECT_THAT(error_with_block({4, -1}, 0, 3), HasSubstr("not within"));
  EXPECT_THAT(error_with_block({1, 0}, 0, 24), HasSubstr("not within"));
  EXPECT_THAT(error_with_block({INT64_MAX, INT64_MAX}, 0, 9), HasSubstr("not within"));
  EXPECT_THAT(error_with_block({2, 3}, 1, 9), HasSubstr("the range of 9 elements from 1 in the block"));
  EXPECT_THAT(error_with_block({2, 3}, 0, 10), HasSubstr("not within"));
  EXPECT_THAT(error_with_block({2, 3}, 0, 9), HasSubstr("nobody stores the elements 0 to 17 in the columns 0 to 1"));
}

TEST_F(SavedBlocks, ReadingRefusesWhatIsNotWithin) {
  state_.save(run());
  const CheckpointReader reader(step_directory(run(), 0));
  std::vector<std::byte> out(16);
  const auto error = [&](ColumnBlock block, std::int64_t first, std::int64_t count) {
    return error_of([&] { reader.read_block(kWeights, kName, block, first, count, out); });
  };
  EXPECT_EQ(error({3, 2}, 2, 4), "no error");
  EXPECT_THAT(error({3, 2}, 3, 4), AllOf(HasSubstr(run().string()), HasSubstr(kName),
                                         HasSubstr("the range of 4 elements from 3 in the block of 2 columns from 3")));
  EXPECT_THAT(error({7, 2}, 0, 4), HasSubstr("not within float32[3, 8]"));
  EXPECT_THAT(error({3, 2}, -1, 4), HasSubstr("not within"));
  EXPECT_THAT(error({3, 2}, 0, 3), HasSubstr("16 bytes"));
}

TEST_F(SavedBlocks, ReadingVerifiesTheFilesItTouches) {
  state_.save(run());
  std::string flipped = read_file(path_of(1));
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_file(path_of(1), flipped);
  const CheckpointReader reader(step_directory(run(), 0));
  for (const BlockRange& untouched : {BlockRange{{0, 4}, 0, 12}, BlockRange{{6, 2}, 1, 5}}) {
    EXPECT_EQ(read_block(reader, std::string(kName), untouched), values_.gathered(untouched));
  }
  EXPECT_THROW(read_block(reader, std::string(kName), {{0, 5}, 4, 1}), DamagedCheckpoint);
}

TEST_F(SavedBlocks, RenamedEntriesAreDamage) {
  state_.save(run());
  const std::string good = read_file(path_of(1));
  const auto error_with = [&](const std::string& name) {
    std::string renamed = good;
    const std::string old = "@0+6:4+2";
    renamed.replace(renamed.find(old), old.size(), name);
    write_file(path_of(1), renamed);
    try {
      const CheckpointReader reader(step_directory(run(), 0));
    } catch (const DamagedCheckpoint& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_with("@0+6:4+2"), "no error");
  EXPECT_THAT(error_with("@0+6:3+2"), HasSubstr("the element 3 is stored twice"));
  EXPECT_THAT(error_with("@0+6:4+3"), HasSubstr("nobody stores the elements 20 to 21"));
  EXPECT_THAT(error_with("@0+6:7+2"),
              AllOf(HasSubstr(path_of(1).string()), HasSubstr("expected a part of float32[3, 8]")));
  EXPECT_THAT(error_with("@1+6:4+2"), HasSubstr("expected a part of"));
  EXPECT_THAT(error_with("@0+5:4+2"), HasSubstr("expected a part of"));
  EXPECT_THAT(error_with("@0+6:4+0"), HasSubstr("the manifest does not know it"));
  EXPECT_THAT(error_with("@0+6:4-2"), HasSubstr("the manifest does not know it"));
  EXPECT_THAT(error_with("@0+6:+42"), HasSubstr("the manifest does not know it"));
  EXPECT_THAT(error_with("@0+6:42 "), HasSubstr("the manifest does not know it"));
}

TEST_F(SavedBlocks, ANewerManifestIsRefused) {
  state_.save(run());
  std::string manifest = read_file(items() / "manifest.json");
  const std::string version = "\"format_version\": 2";
  manifest.replace(manifest.find(version), version.size(), "\"format_version\": 3");
  const std::filesystem::path path = run() / "manifest.json";
  write_file(path, manifest);
  EXPECT_EQ(error_of([&] { read_manifest(path); }),
            path.string() + ": corrupt: its format version is 3, this program reads 1 to 2");
}

TEST_F(SavedBlocks, OtherProcessesTellOfThem) {
  const TensorSpec spec{{3, 8}, DType::float32};
  const std::vector<FileRecord> files{
      {"a", std::string(kWeights), 1, "0", {{"w", spec, {{0, 3}, 0, 9}}, {"w", spec, {{3, 5}, 0, 8}}}}};
  const std::filesystem::path path = run() / "process-00001.json";
  write_file(path, records_to_text(files));
  EXPECT_THAT(error_of([&] { make_manifest({}, read_records(path)); }),
              HasSubstr("nobody stores the elements 14 to 23 in the columns 3 to 7"));
}

TEST(ColumnBlockNames, AreReadBack) {
  const Shape shape{3, 8};
  const auto name = [&](const BlockRange& range) { return range_entry_name("a:1+2", range, shape); };
  EXPECT_EQ(name({{0, 8}, 0, 24}), "a:1+2");
  EXPECT_EQ(name({{0, 8}, 1, 23}), "a:1+2@1+23");
  EXPECT_EQ(name({{2, 5}, 1, 14}), "a:1+2@1+14:2+5");
  for (const BlockRange& range : {BlockRange{{0, 8}, 1, 23}, BlockRange{{2, 5}, 1, 14}, BlockRange{{0, 3}, 0, 9}}) {
    const auto entry = parse_range_entry(name(range));
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->name, "a:1+2");
    EXPECT_EQ(entry->first, range.first);
    EXPECT_EQ(entry->count, range.count);
    EXPECT_EQ(explicit_block(entry->block, shape), range.block);
  }
  EXPECT_EQ(parse_range_entry("a:1+2")->name, "a:1+2");
  for (const std::string wrong : {"w@", "w@1", "w@1+", "w@1+2:", "w@1+2:3", "w@1+2:3+", "w@1+2:3+0", "w@1+2:+4",
                                  "w@1+2:-3+4", "w@1+2:3+4:5+6", "w@1:3+4", "w@1+2+3+4"}) {
    EXPECT_FALSE(parse_range_entry(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace maxtext
