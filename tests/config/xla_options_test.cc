#include "config/xla_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/config_folder.h"
#include "config/describe.h"
#include "config/resolve.h"

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::load;
using testing::load_error;

EngineChoice choice(std::vector<std::string> overrides) { return engine_choice(load(std::move(overrides))); }

TEST(EngineChoice, TheNativeEngineIsForTheCpu) {
  EXPECT_EQ(choice({}).engine, EngineKind::native);
  EXPECT_EQ(choice({}).hardware, Hardware::cpu);
  EXPECT_EQ(choice({"hardware=tpu"}).engine, EngineKind::xla);
  EXPECT_EQ(choice({"hardware=gpu"}).hardware, Hardware::gpu);
  EXPECT_EQ(choice({"hardware=gpu_multiprocess"}).hardware, Hardware::gpu);
  EXPECT_EQ(choice({"engine=xla"}).engine, EngineKind::xla);
  EXPECT_EQ(choice({"engine=xla"}).hardware, Hardware::cpu);
  EXPECT_EQ(load_error({"engine=native", "hardware=tpu"}),
            "engine=native (command line) and hardware=tpu (command line): the native engine runs on the cpu only; use "
            "engine=xla");
  EXPECT_THAT(load_error({"engine=native", "compile_topology=v6e-8"}), HasSubstr("and compile_topology=v6e-8"));
  EXPECT_THAT(load_error({"hardware=npu"}), HasSubstr("expected cpu, tpu, gpu, gpu_multiprocess"));
}

TEST(EngineChoice, ATopologyDecidesTheHardware) {
  const EngineChoice tpu = choice({"compile_topology=v6e-256"});
  EXPECT_EQ(tpu.hardware, Hardware::tpu);
  EXPECT_EQ(tpu.engine, EngineKind::xla);
  ASSERT_NE(tpu.topology, nullptr);
  EXPECT_EQ(tpu.topology->devices_per_slice, 256);
  EXPECT_EQ(choice({"compile_topology=h200-8"}).hardware, Hardware::gpu);
  EXPECT_EQ(choice({}).topology, nullptr);
  EXPECT_EQ(load_error({"compile_topology=v6e-256", "hardware=cpu"}),
            "hardware=cpu (command line): compile_topology=v6e-256 (command line) needs hardware=tpu");
}

TEST(EngineChoice, UnknownTopologiesNameTheNearestAndTheFamilies) {
  const std::string error = load_error({"compile_topology=v6e-255"});
  EXPECT_THAT(error, ::testing::StartsWith("compile_topology=v6e-255 (command line): unknown; did you mean v6e-256"));
  EXPECT_THAT(error, HasSubstr("v5p-8 to v5p-17920"));
}

TEST(EngineChoice, TheMeshIsThatOfTheTopology) {
  EXPECT_THAT(resolve_mesh(load({"compile_topology=v6e-256", "ici_context_parallelism=16"})),
              ElementsAre(1, 16, 16, 1));
  EXPECT_THAT(resolve_mesh(load({"compile_topology=v6e-8", "compile_topology_num_slices=2"})), ElementsAre(2, 8, 1, 1));
  EXPECT_THAT(resolve_mesh(load({"compile_topology=v6e-8", "dcn_fsdp_parallelism=2"})), ElementsAre(1, 16, 1, 1));
  EXPECT_EQ(choice({"compile_topology=v6e-8", "num_slices=4"}).slices, 4);
  EXPECT_NO_THROW(load({"compile_topology=v6e-256", "num_devices=256"}));
  EXPECT_EQ(
      load_error({"compile_topology=v6e-8", "num_devices=16"}),
      "num_devices=16 (command line): compile_topology=v6e-8 (command line) has 8 devices; leave num_devices at -1");
  EXPECT_THAT(load_error({"compile_topology=v6e-8", "compile_topology_num_slices=2", "num_slices=4"}),
              HasSubstr("they disagree"));
  EXPECT_THAT(load_error({"compile_topology=v6e-8", "ici_context_parallelism=3"}),
              HasSubstr("expected a divisor of 8 (compile_topology=v6e-8"));
  EXPECT_THAT(load_error({"compile_topology_num_slices=2"}), HasSubstr("compile_topology, which is not set"));
}

TEST(EngineChoice, OnlyXlaTrainsInBfloat16) {
  EXPECT_EQ(load_error({"dtype=bfloat16"}),
            "dtype=bfloat16 (command line): the native engine trains in float32; use engine=xla, or dtype=float32");
  EXPECT_TRUE(choice({"dtype=bfloat16", "engine=xla"}).bfloat16);
  EXPECT_TRUE(choice({"dtype=bfloat16", "compile_topology=v5p-8"}).bfloat16);
  EXPECT_FALSE(choice({"hardware=tpu"}).bfloat16);
}

TEST(EngineChoice, KeysOfXlaAreNotPassedOverInSilence) {
  EXPECT_EQ(load_error({"xla_dump_to=dump"}),
            "xla_dump_to=dump (command line): engine=auto (default) with hardware=cpu (default) is the native engine, "
            "which compiles nothing; use engine=xla");
  EXPECT_THAT(load_error({"xla_verify_first_step=true"}), HasSubstr("use engine=xla"));
  EXPECT_NO_THROW(load({"xla_dump_to=", "xla_verify_first_step=false", "xla_plugin_path=/a/plugin.so"}));
  EXPECT_NO_THROW(load({"jax_cache_dir=gs://bucket/cache", "hardware=cpu"})) << "as MaxText's command lines have it";
  EXPECT_THAT(load_error({"jax_cache_dir=gs://bucket/cache", "engine=xla"}),
              HasSubstr("gs:// paths are not supported"));
}

TEST(EngineChoice, ThePluginMustBeThereForARun) {
  const auto run = [](const std::string& plugin) {
    load_config(
        {testing::base_file(), {"engine=xla", "run_name=a", "xla_plugin_path=" + plugin}, {}, std::nullopt, true});
  };
  const testing::TemporaryFolder folder;
  EXPECT_NO_THROW(run(folder.write("plugin.so", "x").string()));
  EXPECT_THAT(testing::config_error([&] { run((folder.path() / "nothing.so").string()); }),
              HasSubstr("(command line): there is nothing; expected a PJRT plugin"));
}

TEST(XlaOptions, ComeFromTheirKeys) {
  const XlaOptions options =
      choice({"engine=xla", "xla_plugin_path=/a/plugin.so", "xla_dump_to=dump", "xla_verify_first_step=true",
              "jax_cache_dir=", "compile_xla_flags=--xla_a=true --xla_b=3"})
          .xla;
  EXPECT_EQ(options.plugin_path, "/a/plugin.so");
  EXPECT_EQ(options.dump_directory, "dump");
  EXPECT_TRUE(options.verify_first_step);
  EXPECT_TRUE(options.cache_directory.empty());
  EXPECT_EQ(options.compiler_flags.size(), 2U);
}

TEST(XlaOptions, TheCacheLiesBelowTheHomeDirectory) {
  const char* const home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(choice({"engine=xla"}).xla.cache_directory, "/home/somebody/.cache/maxtext/xla");
  ::unsetenv("HOME");
  EXPECT_TRUE(choice({"engine=xla"}).xla.cache_directory.empty());
  if (home != nullptr) ::setenv("HOME", before.c_str(), 1);
}

TEST(XlaFlags, HaveTypedValues) {
  EXPECT_THAT(parse_xla_flags("--xla_a=true --xla_b=False  --xla_c --xla_d=65536 --xla_e=0.5 --xla_f=a,b=c", "k"),
              ElementsAre(XlaFlag{"xla_a", true}, XlaFlag{"xla_b", false}, XlaFlag{"xla_c", true},
                          XlaFlag{"xla_d", std::int64_t{65536}}, XlaFlag{"xla_e", 0.5},
                          XlaFlag{"xla_f", std::string("a,b=c")}));
  EXPECT_TRUE(parse_xla_flags("", "k").empty());
  EXPECT_THAT(parse_xla_flags("\"--xla_a=1\"", "k"), ElementsAre(XlaFlag{"xla_a", std::int64_t{1}}));
  EXPECT_THAT(parse_xla_flags("--xla_a=1 --xla_b=2 --xla_a=3", "k"),
              ElementsAre(XlaFlag{"xla_a", std::int64_t{3}}, XlaFlag{"xla_b", std::int64_t{2}}));
}

TEST(XlaFlags, OthersAreRefused) {
  for (const char* text : {"xla_a=1", "--", "--=1", "-xla_a=1", "--xla-a=1", "--xla_a=1 2"}) {
    EXPECT_THAT(load_error({"engine=xla", std::string("compile_xla_flags=") + text}),
                HasSubstr("is no flag; expected --name=value"))
        << text;
  }
}

TEST(EngineChoice, ADumpKeepsTheHardwareOpen) {
  const Config config = load({});
  EXPECT_THAT(dump_config(config, "base.yml", resolve_mesh(config)), ::testing::Not(HasSubstr("hardware:")));
  const Config tpu = load({"hardware=tpu"});
  EXPECT_THAT(dump_config(tpu, "base.yml", resolve_mesh(tpu)), HasSubstr("hardware: tpu"));
}

}  // namespace
}  // namespace maxtext
