// The scripts that users run, on models small enough for a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

/// MaxText's acceptance flow: convert, decode, fine-tune with four devices along the sequence, pretrain, decode the
/// result, check logits against Hugging Face's, export, check again.
TEST(Scripts, TheEndToEndFlowPassesOnATinyLlama) {
  const TemporaryDirectory directory;
  const std::string model = (fixture_root() / "hf/models/llama").string();
  const std::string log = (directory.path() / "log").string();
  const std::string shape =
      "base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 base_mlp_dim=112 "
      "base_num_decoder_layers=3 vocab_size=320";
  const std::string command = "TMPDIR='" + directory.path().string() + "' scripts/end_to_end_llama2_7b '" + model +
                              "' --golden '" + model + "' " + shape + " tokenizer_type=bytes > '" + log +
                              "' 2>&1 < /dev/null";
  const int status = std::system(command.c_str());
  const std::string output = read_file(log);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
  EXPECT_THAT(output, ::testing::HasSubstr("All steps passed"));
  EXPECT_THAT(output, ::testing::HasSubstr("training forward on 4 devices"));
  EXPECT_THAT(output, ::testing::HasSubstr("completed step: 9,"));
}

}  // namespace
}  // namespace maxtext::testing
