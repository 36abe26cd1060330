#include "config/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_folder.h"

namespace maxtext {
namespace {

using testing::config_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Source kCommandLine{SourceKind::command_line, "command line"};

using Settings = std::vector<std::pair<std::string, std::string>>;

Config config_of(const Settings& settings) {
  Config config;
  for (const auto& [key, text] : settings) config.set(key, text, kCommandLine);
  return config;
}

MeshSizes mesh_of(const Settings& settings, std::optional<int> launched = std::nullopt) {
  return resolve_mesh(config_of(settings), launched);
}

std::string mesh_error(const Settings& settings, std::optional<int> launched = std::nullopt) {
  return config_error([&] { mesh_of(settings, launched); });
}

TEST(ResolveMesh, AloneAnAutomaticAxisIsOne) {
  EXPECT_THAT(mesh_of({}), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(mesh_of({{"ici_context_parallelism", "4"}}), ElementsAre(1, 1, 4, 1));
  EXPECT_THAT(mesh_of({{"ici_context_parallelism", "3"}, {"ici_data_parallelism", "2"}}), ElementsAre(2, 1, 3, 1));
  EXPECT_THAT(mesh_of({{"ici_context_parallelism", "-1"}, {"ici_fsdp_parallelism", "2"}}), ElementsAre(1, 2, 1, 1));
}

TEST(ResolveMesh, AnAutomaticAxisTakesWhatTheOthersLeave) {
  EXPECT_THAT(mesh_of({{"num_devices", "8"}}), ElementsAre(1, 8, 1, 1));
  EXPECT_THAT(mesh_of({{"ici_context_parallelism", "2"}}, 8), ElementsAre(1, 4, 2, 1));
  EXPECT_THAT(mesh_of({{"ici_context_parallelism", "8"}}, 8), ElementsAre(1, 1, 8, 1));
  EXPECT_THAT(mesh_of({{"ici_fsdp_parallelism", "1"}, {"ici_context_parallelism", "-1"}}, 6), ElementsAre(1, 1, 6, 1));
  EXPECT_THAT(mesh_of({{"num_devices", "6"}}, 6), ElementsAre(1, 6, 1, 1));
}

TEST(ResolveMesh, SlicesMultiplyTheInside) {
  EXPECT_THAT(mesh_of({{"num_slices", "2"}, {"num_devices", "16"}, {"ici_context_parallelism", "4"}}),
              ElementsAre(2, 2, 4, 1));
  EXPECT_THAT(mesh_of({{"num_slices", "2"},
                       {"dcn_data_parallelism", "1"},
                       {"dcn_context_parallelism", "2"},
                       {"ici_context_parallelism", "4"}}),
              ElementsAre(1, 1, 8, 1));
}

TEST(ResolveMesh, ProductsThatDoNotFit) {
  EXPECT_EQ(mesh_error({{"ici_context_parallelism", "3"}}, 4),
            "ici_context_parallelism=3 (command line): the product of the ici axes is 3, expected a divisor of 4 (the "
            "launcher started 4 processes)");
  EXPECT_EQ(mesh_error({{"ici_context_parallelism", "2"}, {"ici_fsdp_parallelism", "1"}, {"num_devices", "4"}}),
            "ici_context_parallelism=2 (command line): the product of the ici axes is 2, expected 4 (num_devices=4 "
            "(command line)); one ici axis may be -1 to take what is left");
  EXPECT_THAT(mesh_error({{"ici_fsdp_parallelism", "1"}}, 2), HasSubstr("ici_*_parallelism=1: the product"));
  EXPECT_THAT(mesh_error({{"num_devices", "4"}}, 2), HasSubstr("the launcher started 2 processes"));
  EXPECT_THAT(mesh_error({{"num_slices", "2"}, {"num_devices", "3"}}), HasSubstr("expected a divisor of 3 devices"));
}

TEST(ResolveMesh, AtMostOneAutomaticAxisPerLevel) {
  EXPECT_EQ(mesh_error({{"ici_context_parallelism", "-1"}}, 4),
            "ici_fsdp_parallelism=-1 (default) and ici_context_parallelism=-1 (command line): at most one ici axis may "
            "be -1");
  EXPECT_THAT(mesh_error({{"ici_context_parallelism", "-1"}}), HasSubstr("at most one ici axis")) << "alone too";
  EXPECT_THAT(mesh_error({{"dcn_context_parallelism", "-1"}}), HasSubstr("at most one dcn axis"));
}

TEST(ResolveMesh, DcnAxesNeedSlices) {
  EXPECT_EQ(mesh_error({{"dcn_context_parallelism", "2"}, {"num_slices", "1"}}),
            "dcn_context_parallelism=2 (command line): the product of the dcn axes is 2, expected a divisor of 1 "
            "(num_slices=1)");
  EXPECT_THAT(mesh_error({{"dcn_data_parallelism", "2"}, {"num_slices", "1"}}), HasSubstr("expected 1 (num_slices=1)"));
  EXPECT_THAT(mesh_error({{"dcn_data_parallelism", "2"}, {"num_devices", "3"}}),
              HasSubstr("dcn_data_parallelism=2 (command line): expected a divisor of 3 devices"));
  EXPECT_THAT(mesh_error({{"dcn_data_parallelism", "1"}, {"num_slices", "2"}}), HasSubstr("expected 2 (num_slices=2)"));
}

TEST(ResolveMesh, NoProductOverflows) {
  EXPECT_THAT(mesh_error({{"ici_context_parallelism", "1048576"},
                          {"ici_data_parallelism", "1048576"},
                          {"ici_fsdp_parallelism", "1048576"}}),
              HasSubstr("expected at most 1048576 devices"));
  // 2^64 and 2^63: a product that wraps around would be 0, or negative.
  EXPECT_THAT(mesh_error({{"ici_context_parallelism", "65536"},
                          {"ici_data_parallelism", "65536"},
                          {"ici_fsdp_parallelism", "65536"},
                          {"ici_tensor_parallelism", "65536"}}),
              HasSubstr("expected at most 1048576 devices"));
  EXPECT_THAT(mesh_error({{"num_devices", "4"},
                          {"ici_context_parallelism", "1048576"},
                          {"ici_data_parallelism", "1048576"},
                          {"ici_tensor_parallelism", "1048576"}}),
              HasSubstr("expected at most 1048576 devices"));
  EXPECT_THAT(mesh_error({{"num_slices", "1048576"}, {"ici_context_parallelism", "2"}}),
              HasSubstr("expected at most 1048576 devices"));
  EXPECT_THAT(mesh_error({{"num_slices", "4"},
                          {"dcn_context_parallelism", "1048576"},
                          {"dcn_fsdp_parallelism", "1048576"},
                          {"dcn_tensor_parallelism", "1048576"}}),
              HasSubstr("expected at most 1048576 devices"));
}

BatchSizes batch_of(const Settings& settings) {
  const Config config = config_of(settings);
  return resolve_batch(config, resolve_mesh(config));
}

std::string batch_error(const Settings& settings) {
  return config_error([&] { batch_of(settings); });
}

TEST(ResolveBatch, RowsOfAStepAreBounded) {
  EXPECT_THAT(batch_error({{"per_device_batch_size", "1e9"},
                           {"gradient_accumulation_steps", "1000000000"},
                           {"num_devices", "1048576"}}),
              HasSubstr("more than 1000000000 rows per step"));
}

TEST(ResolveBatch, PerDeviceBatchCountsEveryDeviceAndMicroBatch) {
  const BatchSizes sizes = batch_of({{"per_device_batch_size", "2"},
                                     {"ici_fsdp_parallelism", "2"},
                                     {"ici_data_parallelism", "3"},
                                     {"gradient_accumulation_steps", "5"}});
  EXPECT_EQ(sizes.global, 2 * 6 * 5);
  EXPECT_EQ(sizes.micro, 12);
  EXPECT_EQ(sizes.local, 2);
  EXPECT_EQ(sizes.per_device, 2.0);
}

TEST(ResolveBatch, AFractionExpressesRowsSharedAlongContext) {
  const BatchSizes sizes =
      batch_of({{"per_device_batch_size", "0.125"}, {"ici_context_parallelism", "16"}, {"ici_fsdp_parallelism", "16"}});
  EXPECT_EQ(sizes.global, 32);
  EXPECT_EQ(sizes.local, 2);
  EXPECT_EQ(sizes.per_device, 0.125);
  EXPECT_EQ(batch_of({{"per_device_batch_size", "0.33333333333"}, {"ici_context_parallelism", "3"}}).global, 1);
}

TEST(ResolveBatch, GlobalBatchDoesNotDependOnDevices) {
  for (const char* devices : {"1", "2", "4"}) {
    const BatchSizes sizes =
        batch_of({{"global_batch_size", "8"}, {"num_devices", devices}, {"gradient_accumulation_steps", "2"}});
    EXPECT_EQ(sizes.global, 8);
    EXPECT_EQ(sizes.micro, 4);
    EXPECT_EQ(sizes.local, 4 / std::stoi(devices));
  }
}

TEST(ResolveBatch, BothMustAgree) {
  const BatchSizes sizes = batch_of({{"global_batch_size", "4"}, {"per_device_batch_size", "2"}, {"num_devices", "2"}});
  EXPECT_EQ(sizes.global, 4);
  EXPECT_EQ(batch_error({{"global_batch_size", "4"}, {"per_device_batch_size", "3"}, {"num_devices", "2"}}),
            "global_batch_size=4 (command line) and per_device_batch_size=3 (command line): with 2 devices and "
            "gradient_accumulation_steps=1 the latter makes 6 rows; set only one");
}

TEST(ResolveBatch, RowsThatCannotBeDivided) {
  EXPECT_EQ(batch_error({{"global_batch_size", "6"}, {"num_devices", "2"}, {"gradient_accumulation_steps", "2"}}),
            "global_batch_size=6 (command line): expected a multiple of 4 (data 1 x fsdp 2 x "
            "gradient_accumulation_steps 2)");
  EXPECT_EQ(
      batch_error({{"per_device_batch_size", "0.3"}, {"num_devices", "2"}}),
      "per_device_batch_size=0.3 (command line): times 2 devices it is 0.6 rows, expected a multiple of 2 (data 1 "
      "x fsdp 2)");
  EXPECT_THAT(
      batch_error({{"per_device_batch_size", "0.25"}, {"ici_fsdp_parallelism", "2"}, {"ici_context_parallelism", "2"}}),
      HasSubstr("expected a multiple of 2"));
  EXPECT_THAT(batch_error({{"per_device_batch_size", "0.1"}}), HasSubstr("expected a whole number, at least 1"));
  EXPECT_THAT(batch_error({{"per_device_batch_size", "1e-9"}}), HasSubstr("expected a whole number, at least 1"));
}

TEST(Resolve, StepsAndScheduleStandInForEachOther) {
  EXPECT_EQ(resolve_steps(config_of({{"steps", "10"}})), 10);
  EXPECT_EQ(resolve_schedule_steps(config_of({{"steps", "10"}})), 10);
  EXPECT_EQ(resolve_steps(config_of({{"steps", "-1"}, {"learning_rate_schedule_steps", "7"}})), 7);
  EXPECT_EQ(resolve_schedule_steps(config_of({{"steps", "10"}, {"learning_rate_schedule_steps", "7"}})), 7);
}

TEST(Resolve, WithoutLoadBalanceNothingIsReordered) {
  EXPECT_EQ(resolve_reorder_strategy(config_of({})), "auto");
  EXPECT_EQ(resolve_reorder_strategy(config_of({{"context_parallel_reorder_strategy", "striped"}})), "striped");
  EXPECT_EQ(resolve_reorder_strategy(config_of(
                {{"context_parallel_load_balance", "false"}, {"context_parallel_reorder_strategy", "striped"}})),
            "none");
}

TEST(Resolve, DataFilesLieBelowTheDatasetPath) {
  EXPECT_THAT(resolve_train_files(config_of({})), ElementsAre());
  EXPECT_THAT(resolve_train_files(config_of({{"dataset_path", "a/*.txt"}})), ElementsAre("a/*.txt"));
  EXPECT_THAT(resolve_train_files(config_of({{"train_files", "x,/y"}})), ElementsAre("x", "/y"));
  const Config both = config_of({{"dataset_path", "a"}, {"train_files", "x,/y"}, {"eval_files", "z"}});
  EXPECT_THAT(resolve_train_files(both), ElementsAre("a/x", "/y"));
  EXPECT_THAT(resolve_eval_files(both), ElementsAre("a/z"));
  EXPECT_THAT(resolve_eval_files(config_of({{"dataset_path", "a"}})), ElementsAre());
}

TEST(Resolve, RunDirectory) {
  EXPECT_EQ(resolve_run_directory(config_of({{"base_output_directory", "out"}, {"run_name", "r"}})), "out/r");
}

}  // namespace
}  // namespace maxtext
