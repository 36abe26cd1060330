// The scripts that users run, on models small enough for a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/fixtures.h"
#include "testing/program.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

/// MaxText's acceptance flow: convert, decode, fine-tune with four devices along the sequence, pretrain, decode the
/// result, check logits against Hugging Face's, export, check again.
TEST(Scripts, TheEndToEndFlowPassesOnATinyLlama) {
  const TemporaryDirectory directory;
  const std::string model = (fixture_root() / "hf/models/llama").string();
  Program flow({"bash", "scripts/end_to_end_llama2_7b", model, "--golden", model, "base_emb_dim=64",
                "base_num_query_heads=4", "base_num_kv_heads=2", "head_dim=16", "base_mlp_dim=112",
                "base_num_decoder_layers=3", "vocab_size=320", "tokenizer_type=bytes"},
               {"TMPDIR=" + directory.path().string()});
  const ProgramResult result = flow.wait(300);
  const std::string& output = result.output;
  ASSERT_EQ(result.exit_code, 0) << output << result.error;
  EXPECT_THAT(output, ::testing::HasSubstr("All steps passed"));
  EXPECT_THAT(output, ::testing::HasSubstr("training forward on 4 devices"));
  EXPECT_THAT(output, ::testing::HasSubstr("completed step: 9,"));
}

}  // namespace
}  // namespace maxtext::testing
