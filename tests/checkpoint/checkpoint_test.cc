// Saving and reading when nothing goes wrong, and what is refused.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing/example_state.h"
#include "testing/faulty_file_layer.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ExampleState;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_file;
using testing::TemporaryDirectory;
using testing::write_file;

template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class CheckpointTest : public ::testing::Test {
 protected:
  SaveOptions options(int devices = 1, int keep = 0) const {
    SaveOptions options;
    options.run_directory = run();
    options.device_count = devices;
    options.keep = keep;
    return options;
  }
  void save(const ExampleState& state, int owners, int keep = 0) const {
    save_checkpoint(options(owners, keep), state.info(), state.owned_by(owners));
  }
  std::filesystem::path run() const { return directory_.path() / "base" / "run"; }
  std::filesystem::path items(std::int64_t step) const { return step_directory(run(), step) / "items"; }

 private:
  TemporaryDirectory directory_;
};

TEST_F(CheckpointTest, AnyOwnersToAnyOwnersBitwise) {
  for (const int owners : {1, 2, 3, 7, 40}) {
    const ExampleState state(owners);
    save(state, owners);
    const CheckpointReader reader(step_directory(run(), owners));
    for (const int parts : {1, 2, 5, 40}) state.expect_equal(reader, parts);
    reader.verify();
  }
}

TEST_F(CheckpointTest, FolderIsLaidOutAsDocumented) {
  save(ExampleState(12), 2);
  EXPECT_EQ(latest_checkpoint(run()), run() / "checkpoints" / "12");
  EXPECT_TRUE(std::filesystem::exists(run() / "checkpoints" / "12" / "COMMITTED"));
  EXPECT_TRUE(std::filesystem::exists(items(12) / "manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(items(12) / "second_moment-00001-of-00002.safetensors"));
  const SafetensorsFile file(items(12) / "weights-00000-of-00002.safetensors");
  EXPECT_TRUE(file.contains("model.embed_tokens.weight@0+102"));
}

TEST_F(CheckpointTest, OneOwnersWeightsAreAnOrdinaryFile) {
  ExampleState state(3);
  save(state, 1);
  const SafetensorsFile file(items(3) / "weights-00000-of-00001.safetensors");
  for (const auto& [key, value] : state.values()) {
    if (key.first != kWeights) continue;
    EXPECT_EQ(file.at(key.second).spec, value.spec);
    EXPECT_TRUE(testing::bitwise_equal(read_as_float(file, key.second), value.data));
  }
}

TEST_F(CheckpointTest, NewestIsFoundByNumberAndOldOnesGo) {
  EXPECT_EQ(latest_checkpoint(run()), "");
  for (const std::int64_t step : {8, 9, 10, 100}) save(ExampleState(step), 1, 2);
  EXPECT_THAT(complete_steps(run()), ElementsAre(10, 100));
  EXPECT_FALSE(std::filesystem::exists(step_directory(run(), 9)));
  ExampleState(100).expect_equal(CheckpointReader(latest_checkpoint(run())), 1);
}

/// The agreement on the last phase is cancelled, as when another process dies while the marker is written.
TEST_F(CheckpointTest, ADurableCheckpointStaysWhenTheProcessesNoLongerAgree) {
  save(ExampleState(1), 2);
  for (const int last_agreed : {0, 1, 2}) {
    SaveOptions coordinator = options(2, 1);
    coordinator.process_count = 2;
    int calls = 0;
    coordinator.all_succeeded = [&](bool ok) {
      EXPECT_TRUE(ok);
      // The other process's part: its file and its records are there after the second phase.
      if (calls == 1) write_file(run() / "checkpoints" / "2.tmp" / "items" / "process-00001.json", "[]");
      return calls++ < last_agreed;
    };
    const ExampleState state(2);
    if (last_agreed < 2) {
      EXPECT_THAT(error_of([&] { save_checkpoint(coordinator, state.info(), state.owned_by(2)); }),
                  HasSubstr("step 2 was not saved"));
      EXPECT_THAT(complete_steps(run()), ElementsAre(1)) << last_agreed;
      continue;
    }
    const SaveResult result = save_checkpoint(coordinator, state.info(), state.owned_by(2));
    EXPECT_TRUE(result.ok());
    EXPECT_THAT(result.warning, HasSubstr("did not agree"));
    EXPECT_EQ(calls, 3);
    EXPECT_THAT(complete_steps(run()), ElementsAre(1, 2)) << "and the older one is not removed yet";
    state.expect_equal(CheckpointReader(latest_checkpoint(run())), 1);
  }
}

TEST_F(CheckpointTest, OnlyStepsWithAValidMarkerCount) {
  save(ExampleState(1), 1);
  save(ExampleState(2), 1);
  write_file(step_directory(run(), 2) / "COMMITTED", "");
  EXPECT_THAT(complete_steps(run()), ElementsAre(1));
  std::filesystem::remove(step_directory(run(), 2) / "COMMITTED");
  EXPECT_THAT(complete_steps(run()), ElementsAre(1));
  EXPECT_THAT(error_of([&] { CheckpointReader(step_directory(run(), 2)); }), HasSubstr("not a complete checkpoint"));
  std::filesystem::create_directory(run() / "checkpoints" / "3.tmp");
  std::filesystem::create_directory(run() / "checkpoints" / "notes");
  EXPECT_THAT(complete_steps(run()), ElementsAre(1));
  save(ExampleState(2), 1);
  EXPECT_THAT(complete_steps(run()), ElementsAre(1, 2));
  EXPECT_FALSE(std::filesystem::exists(run() / "checkpoints" / "3.tmp"));
  EXPECT_TRUE(std::filesystem::exists(run() / "checkpoints" / "notes"));
}

TEST_F(CheckpointTest, ACompleteStepIsNotOverwritten) {
  save(ExampleState(1), 1);
  EXPECT_THAT(error_of([&] { save(ExampleState(1), 2); }), HasSubstr("is a complete checkpoint already"));
  ExampleState(1).expect_equal(CheckpointReader(latest_checkpoint(run())), 1);
}

/// Programs before column blocks wrote these bytes and read them.
TEST_F(CheckpointTest, WithoutColumnBlocksNothingOfTheFormatChanged) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const TensorSpec matrix{{2, 3}, DType::float32};
  const TensorSpec vector{{2}, DType::float32};
  const auto range = [&](const TensorSpec& spec, std::int64_t first, std::int64_t count) {
    const auto bytes =
        std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
    return OwnedRange{std::string(kWeights), spec == vector ? "v:0+1" : "w", spec, first, count, bytes};
  };
  CheckpointInfo info;
  info.step = 7;
  save_checkpoint(options(2), info, {{0, {range(matrix, 0, 4), range(vector, 0, 2)}}, {1, {range(matrix, 4, 2)}}});
  const SafetensorsFile file(items(7) / "weights-00000-of-00002.safetensors");
  EXPECT_TRUE(file.contains("w@0+4"));
  EXPECT_TRUE(file.contains("v:0+1"));
  EXPECT_THAT(read_file(items(7) / "manifest.json"), HasSubstr("\"format_version\": 1,"));
  // The marker is a checksum of the manifest, which has those of the files.
  EXPECT_EQ(read_file(step_directory(run(), 7) / "COMMITTED"), "37b4757338ea11b0");
}

TEST_F(CheckpointTest, WrongOwnershipFailsAndLeavesNothing) {
  const ExampleState state(1);
  const auto error_with = [&](const std::function<void(std::vector<DeviceState>&)>& spoil) {
    std::vector<DeviceState> devices = state.owned_by(2);
    spoil(devices);
    const std::string error = error_of([&] { save_checkpoint(options(2), state.info(), devices); });
    EXPECT_THAT(complete_steps(run()), IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(run() / "checkpoints"));
    return error;
  };
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges.erase(devices[0].ranges.begin()); }),
              AllOf(HasSubstr("step 1 was not saved"), HasSubstr("model.embed_tokens.weight"), HasSubstr("nobody")));
  EXPECT_THAT(error_with([](auto& devices) { devices[1].ranges.erase(devices[1].ranges.begin()); }),
              AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("nobody stores the elements 102 to 135")));
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges.push_back(devices[1].ranges[0]); }),
              HasSubstr("the element 102 is stored twice"));
  EXPECT_THAT(error_with([](auto& devices) { devices[1].device = 0; }), HasSubstr("two devices wrote the same file"));
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges[0].count = 200; }), HasSubstr("not within"));
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges[0].count -= 1; }), HasSubstr("bytes"));
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges[0].name = "a@b"; }), HasSubstr("'@'"));
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges[0].kind = "../x"; }), HasSubstr("../x"));
  EXPECT_THAT(error_with([](auto& devices) { devices[0].ranges[0].spec.shape = {136}; }), HasSubstr("one owner says"));
}

TEST_F(CheckpointTest, DamageIsReportedWithFileExpectedAndFound) {
  save(ExampleState(1), 2);
  const auto file = items(1) / "first_moment-00001-of-00002.safetensors";
  const std::string good = read_file(file);
  const auto open = [&] { return error_of([&] { CheckpointReader(step_directory(run(), 1)).verify(); }); };
  write_file(file, good.substr(0, good.size() - 1));
  EXPECT_THAT(open(), AllOf(HasSubstr(file.string()), HasSubstr(std::to_string(good.size())),
                            HasSubstr(std::to_string(good.size() - 1))));
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_file(file, flipped);
  EXPECT_THAT(open(), AllOf(HasSubstr(file.string()), HasSubstr("checksum")));
  std::filesystem::remove(file);
  EXPECT_THAT(open(), AllOf(HasSubstr(file.string()), HasSubstr("missing")));
  write_file(file, good);
  EXPECT_EQ(open(), "no error");
  const std::string manifest = read_file(items(1) / "manifest.json");
  write_file(items(1) / "manifest.json", manifest + " ");
  EXPECT_THAT(open(), HasSubstr("not a complete checkpoint"));
}

TEST_F(CheckpointTest, ReadingVerifiesWhatItTouches) {
  save(ExampleState(1), 2);
  const auto file = items(1) / "weights-00001-of-00002.safetensors";
  std::string flipped = read_file(file);
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_file(file, flipped);
  const CheckpointReader reader(step_directory(run(), 1));
  std::vector<float> out(10);
  reader.read_range_as_float(kWeights, "model.embed_tokens.weight", 0, out);
  EXPECT_THAT(error_of([&] { reader.read_range_as_float(kWeights, "model.embed_tokens.weight", 95, out); }),
              HasSubstr("checksum"));
}

TEST_F(CheckpointTest, ReadingRefusesWhatIsNotThere) {
  save(ExampleState(1), 2);
  const CheckpointReader reader(step_directory(run(), 1));
  std::vector<float> out(10);
  EXPECT_THAT(error_of([&] { reader.read_range_as_float(kWeights, "nothing", 0, out); }), HasSubstr("'nothing'"));
  EXPECT_THAT(error_of([&] { reader.read_range_as_float("momentum", "model.norm.weight", 0, out); }),
              HasSubstr("momentum"));
  EXPECT_THAT(error_of([&] { reader.read_range_as_float(kWeights, "model.norm.weight", 0, out); }),
              HasSubstr("not within float32[3]"));
  EXPECT_THAT(
      error_of([&] { reader.read_range(kWeights, "model.norm.weight", 0, 3, std::as_writable_bytes(std::span(out))); }),
      HasSubstr("40 bytes"));
}

TEST_F(CheckpointTest, ManyThreadsReadOneReader) {
  const ExampleState state(1);
  save(state, 3);
  const CheckpointReader reader(step_directory(run(), 1));
  std::vector<std::thread> threads;
  for (int parts = 1; parts <= 4; ++parts) threads.emplace_back([&, parts] { state.expect_equal(reader, parts); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CheckpointTest, ReducedPrecisionIsStoredAsItIsAndReadAsFloat) {
  const std::vector<std::uint16_t> bits{0x3f80, 0xc000};
  const DeviceState device{
      0, {{std::string(kWeights), "w", {{2}, DType::bfloat16}, 0, 2, std::as_bytes(std::span(bits))}}};
  CheckpointInfo info;
  save_checkpoint(options(), info, {device});
  const CheckpointReader reader(step_directory(run(), 0));
  EXPECT_EQ(reader.spec(kWeights, "w").dtype, DType::bfloat16);
  std::vector<float> out(2);
  reader.read_range_as_float(kWeights, "w", 0, out);
  EXPECT_THAT(out, ElementsAre(1.0F, -2.0F));
}

TEST(Manifest, WhatIsWrongWithItNamesTheMember) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "manifest.json";
  const nlohmann::json whole = {{"format", "maxtext.cpp checkpoint"},
                                {"format_version", 1},
                                {"step", 3},
                                {"cursor", nlohmann::json::object()},
                                {"trainer", nlohmann::json::object()},
                                {"config", nlohmann::json::object()},
                                {"hf_config", nlohmann::json::object()},
                                {"tensors", {{"weights", {{"w", {{"dtype", "float32"}, {"shape", {2, 3}}}}}}}},
                                {"files", {{{"name", "f"}, {"kind", "weights"}, {"bytes", 24}, {"xxh64", "0"}}}}};
  const auto error_with = [&](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json changed = whole;
    nlohmann::json::json_pointer place(pointer);
    if (value.is_discarded()) {
      changed.at(place.parent_pointer()).erase(place.back());
    } else {
      changed[place] = value;
    }
    write_file(file, changed.dump());
    return error_of([&] { read_manifest(file); });
  };
  const nlohmann::json gone(nlohmann::json::value_t::discarded);
  EXPECT_EQ(error_with("/step", 3), "no error");
  const std::string corrupt = file.string() + ": corrupt: ";
  for (const std::string member : {"format", "format_version", "step", "hf_config", "tensors", "files"}) {
    EXPECT_EQ(error_with("/" + member, gone), corrupt + "'" + member + "' is missing");
  }
  EXPECT_EQ(error_with("/step", "three"), corrupt + "'step' is \"three\", of another type than expected");
  EXPECT_EQ(error_with("/tensors/weights/w/shape", gone), corrupt + "'shape' is missing");
  EXPECT_EQ(error_with("/tensors/weights/w", 3), corrupt + "'shape' is missing");
  EXPECT_EQ(error_with("/tensors", 3), corrupt + "'shape' is missing");
  EXPECT_EQ(error_with("/files/0/bytes", nlohmann::json::array()),
            corrupt + "'bytes' is [], of another type than expected");
  EXPECT_EQ(error_with("/files", 3), corrupt + "'name' is missing");
  write_file(file, "{\"step\": ");
  EXPECT_EQ(error_of([&] { read_manifest(file); }), corrupt + "not valid JSON at byte 10");
}

}  // namespace
}  // namespace maxtext
