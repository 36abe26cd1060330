// `maxtext check-logits`: what is compared, and what is only written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/decode_fixture.h"
#include "testing/model_copy.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::OwnedTensor;
using testing::read_tensors;

class CheckLogits : public DecodeCommand {
 protected:
  static std::string check(const std::string& arguments) {
    return "check-logits configs/base.yml tokenizer_type=bytes load_parameters_path='" + model() + "' " + arguments;
  }
};

TEST_F(CheckLogits, TheKeysOfTheCacheAreHeeded) {
  const std::string golden = check("--golden_logits_path '" + model() + "' --atol 1e-4 ");
  ASSERT_EQ(run(golden), 0) << out() << err();
  EXPECT_THAT(out(), HasSubstr("prefill and decode, float32 cache on 1 devices"));
  ASSERT_EQ(run(golden + "prefill_chunk_size=4 ici_context_autoregressive_parallelism=3"), 0) << out() << err();
  EXPECT_THAT(out(), HasSubstr("prefill and decode, float32 cache on 3 devices"));
  ASSERT_EQ(run(golden + "ici_context_autoregressive_parallelism=2 ici_autoregressive_parallelism=2"), 0) << err();
  EXPECT_THAT(out(), HasSubstr("cache on 4 devices"));
  // Fewer bits are further away, and only where keys and values are kept.
  for (const auto& [key, cache] : std::vector<std::pair<std::string, std::string>>{
           {"kv_cache_dtype=bfloat16", "bfloat16 cache on"}, {"quantize_kvcache=true", "int8 cache on"}}) {
    EXPECT_EQ(run(golden + key), 1) << key;
    EXPECT_THAT(out(), HasSubstr(cache));
    const std::size_t failed = out().find("FAILED: beyond atol");
    ASSERT_NE(failed, std::string::npos);
    EXPECT_GT(failed, out().find("prefill and decode")) << "the training forward has no cache";
    EXPECT_EQ(run(check("--golden_logits_path '" + model() + "' --max_kl_div 0.01 ") + key), 0) << out();
  }
}

TEST_F(CheckLogits, GoldenLogitsAreSavedWithoutALimitToo) {
  const std::string saved = path("golden.safetensors");
  ASSERT_EQ(run(check("prompt='a prompt' --save_logits '" + saved + "'")), 0) << err();
  EXPECT_THAT(out(), Not(HasSubstr("training forward")));
  const std::vector<OwnedTensor> tensors = read_tensors(saved);
  ASSERT_EQ(tensors.size(), 2U);
  for (const OwnedTensor& tensor : tensors) EXPECT_EQ(tensor.spec.shape[0], 9) << "with a beginning of sequence";
  ASSERT_EQ(run(check("--golden_logits_path '" + saved + "' --atol 1e-4")), 0) << out() << err();
  ASSERT_EQ(run(check("prompt='a prompt' --token_size 3 --atol 1e-4 --save_logits '" + saved + "'")), 0) << err();
  EXPECT_THAT(out(), HasSubstr("all within the limits"));
  for (const OwnedTensor& tensor : read_tensors(saved)) EXPECT_EQ(tensor.spec.shape[0], 3);
  // In the working directory, too, where no golden logits are read.
  const std::string command = "cd '" + path("") + "' && '" + binary() +
                              "' check-logits base.yml tokenizer_type=bytes " + "prompt=abc load_parameters_path='" +
                              model() + "' --save_logits golden.safetensors";
  std::filesystem::copy_file(testing::fixture_root().parent_path().parent_path() / "configs" / "base.yml",
                             path("base.yml"));
  for (int time = 0; time < 2; ++time) {
    const testing::ProgramResult result = testing::Program({"sh", "-c", command}).wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
  }
  expect_error(check("--save_logits '" + path("golden.jsonl") + "'"), "expected the name of a .safetensors");
  expect_error(check("--save_logits /nonexistent/x.safetensors"), "/nonexistent/x.safetensors: cannot be written");
}

TEST_F(CheckLogits, GoldenLogitsThatAreNoneNameTheLine) {
  const std::string line = path("golden.jsonl") + ": line 2: ";
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"tokens": [1])", "not valid JSON at byte 15\n"},
           {"[1]", "expected a JSON object\n"},
           {R"({"tokens": [1], "logits": [[NaN]]})",
            "not valid JSON at byte 29: NaN and Infinity are no numbers of JSON\n"},
           {R"({"tokens": [1], "logits": [[-Infinity]]})",
            "not valid JSON at byte 30: NaN and Infinity are no numbers of JSON\n"},
           {R"({"tokens": [1, 2], "logits": [[1, 2], [1, 1e39]]})",
            "the golden logit of token 1 at position 1 is not finite\n"},
           {R"({"tokens": ["a"], "logits": [[1]]})", R"(expected {"prompt": text, "tokens": [T])"},
           {R"({"tokens": [1]})", R"(expected {"prompt": text, "tokens": [T])"}}) {
    write("golden.jsonl", "\n" + text + "\n");
    expect_error(check("--atol 1 --golden_logits_path '" + path("golden.jsonl") + "'"), line + expected);
    EXPECT_THAT(err(), Not(HasSubstr("json.exception")));
  }
}

}  // namespace
}  // namespace maxtext
