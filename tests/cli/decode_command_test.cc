// `maxtext decode` and `check-logits` as a user runs them, on the tiny models of the fixtures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/fixtures.h"
#include "testing/program.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class DecodeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  /// The exit code; what the program printed is in out() and err().
  int run(const std::string& arguments) {
    testing::Program program({"sh", "-c", "'" + binary_ + "' " + arguments});
    result_ = program.wait(120);
    return result_.exit_code;
  }

  /// A model of 259 tokens, the bytes tokenizer's vocabulary.
  std::string decode(const std::string& arguments) const {
    return "decode configs/base.yml tokenizer_type=bytes load_parameters_path='" + model() + "' " + arguments;
  }
  static std::string model() { return (testing::fixture_root() / "hf/models/llama-tied").string(); }

  /// Wrong usage: one line on standard error that contains `text`, nothing on standard output, exit code `code`.
  void expect_error(const std::string& arguments, const std::string& text, int code = 2) {
    EXPECT_EQ(run(arguments), code) << arguments << "\n" << err();
    const std::string message = err();
    EXPECT_THAT(message, HasSubstr(text));
    EXPECT_EQ(std::ranges::count(message, '\n'), 1) << message;
    EXPECT_EQ(out(), "");
  }

  const std::string& out() const { return result_.output; }
  const std::string& err() const { return result_.error; }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

 private:
  testing::TemporaryDirectory directory_;
  std::string binary_;
  testing::ProgramResult result_;
};

TEST_F(DecodeCommand, PrintsMaxTextsResultLine) {
  ASSERT_EQ(run(decode("prompt='I love to' max_target_length=80 ignore_eos=true")), 0) << err();
  EXPECT_THAT(out(), HasSubstr("Input `I love to` -> `"));
  EXPECT_THAT(err(), HasSubstr("tokens/s"));
}

TEST_F(DecodeCommand, JsonHoldsAnswersTimingsAndMemory) {
  ASSERT_EQ(run(decode("prompt=abc max_target_length=80 ignore_eos=true --json -")), 0) << err();
  const Json report = Json::parse(out());
  const Json& answer = report.at("answers").at(0);
  EXPECT_EQ(answer.at("prompt"), "abc");
  EXPECT_EQ(answer.at("finish_reason"), "length");
  EXPECT_EQ(answer.at("ids").size() + answer.at("prompt_ids").size(), 80U);
  EXPECT_GT(report.at("timings").at("decode_tokens_per_second").get<double>(), 0);
  EXPECT_GT(report.at("timings").at("first_token_seconds").get<double>(), 0);
  EXPECT_GT(report.at("memory").at("kv_cache_bytes").get<std::int64_t>(), 0);
}

TEST_F(DecodeCommand, UnevenPromptsGetTheAnswersThatEachGetsAlone) {
  write("prompts.jsonl", "\"one\"\n{\"prompt\": \"a longer prompt of many bytes\"}\n\n\"x\"\n");
  const std::string rest = " max_target_length=90 ignore_eos=true --json -";
  ASSERT_EQ(run(decode("prompt_file='" + path("prompts.jsonl") + "' per_device_batch_size=2" + rest)), 0) << err();
  const Json together = Json::parse(out()).at("answers");
  ASSERT_EQ(together.size(), 3U);
  for (const Json& answer : together) {
    const auto prompt = answer.at("prompt").get<std::string>();
    ASSERT_EQ(run(decode("prompt='" + prompt + "'" + rest)), 0) << err();
    EXPECT_EQ(Json::parse(out()).at("answers").at(0).at("ids"), answer.at("ids")) << prompt;
  }
}

TEST_F(DecodeCommand, TheSameSeedGivesTheSameAnswerAndIsPrinted) {
  const std::string sampled = decode("prompt=abc max_target_length=90 decode_sampling_strategy=weighted --json -");
  ASSERT_EQ(run(sampled), 0) << err();
  const Json first = Json::parse(out());
  const auto seed = first.at("seed").get<std::uint64_t>();
  EXPECT_THAT(err(), HasSubstr("decode_sampling_seed=" + std::to_string(seed)));
  ASSERT_EQ(run(sampled + " decode_sampling_seed=" + std::to_string(seed)), 0) << err();
  EXPECT_EQ(Json::parse(out()).at("answers"), first.at("answers"));
}

TEST_F(DecodeCommand, ASharedCacheGivesTheSameAnswer) {
  const std::string rest = "prompt='a prompt of some bytes' max_target_length=120 prefill_chunk_size=16 --json -";
  ASSERT_EQ(run(decode(rest)), 0) << err();
  const Json alone = Json::parse(out()).at("answers");
  ASSERT_EQ(run(decode(rest + " ici_context_autoregressive_parallelism=2")), 0) << err();
  EXPECT_EQ(Json::parse(out()).at("answers"), alone);
}

TEST_F(DecodeCommand, TheAssertionOfMaxTextsFlow) {
  ASSERT_EQ(run(decode("prompt=abc max_target_length=70 --json -")), 0) << err();
  EXPECT_EQ(run(decode("prompt=abc max_target_length=70 autoregressive_decode_assert='something else'")), 1);
  EXPECT_THAT(err(), HasSubstr("autoregressive_decode_assert"));
}

TEST_F(DecodeCommand, RandomWeightsAreSaidToBeRandom) {
  ASSERT_EQ(run("decode configs/base.yml model_name=llama-tiny tokenizer_type=bytes max_target_length=70"), 0) << err();
  EXPECT_THAT(err(), HasSubstr("the weights are random"));
}

TEST_F(DecodeCommand, MaxTextsFlagsAreAccepted) {
  EXPECT_EQ(run(decode("prompt=abc max_target_length=70 per_device_batch_size=1 scan_layers=false "
                       "async_checkpointing=false attention=pallas_gpu ici_autoregressive_parallelism=1")),
            0)
      << err();
}

TEST_F(DecodeCommand, WrongInputIsOneLineThatNamesTheKey) {
  expect_error(decode("max_prefill_predict_length=2"), "max_prefill_predict_length=2");
  expect_error(decode("max_target_length=64"), "max_target_length=64");
  expect_error(decode("attention=flash"), "attention=autoselected or attention=pallas_gpu");
  expect_error(decode("decode_sampling_strategy=topk"), "decode_sampling_top_k");
  expect_error(decode("decode_sampling_strategy=nucleus"), "decode_sampling_nucleus_p");
  expect_error(decode("decode_sampling_temperature=0"), "decode_sampling_temperature");
  expect_error(decode("prompt_file=/nonexistent/prompts.txt"), "prompt_file=/nonexistent/prompts.txt");
  expect_error("decode configs/base.yml load_parameters_path=/nonexistent tokenizer_type=bytes",
               "load_parameters_path=/nonexistent");
  expect_error("decode configs/base.yml load_parameters_path='" + model() + "'", "tokenizer_path is empty");
  expect_error("decode configs/base.yml model_name=llama2-7b tokenizer_type=bytes max_target_length=1000000",
               "not enough memory");
  write("bad.txt", "ab\xff");
  expect_error(decode("prompt_file='" + path("bad.txt") + "'"), "byte 2 is not UTF-8", 1);
  write("empty.jsonl", "\n");
  expect_error(decode("prompt_file='" + path("empty.jsonl") + "'"), "there is no prompt");
  write("odd.jsonl", "\"a\"\n[1]\n");
  expect_error(decode("prompt_file='" + path("odd.jsonl") + "'"), "line 2");
}

TEST_F(DecodeCommand, CheckLogitsAcceptsTheGoldenOnesOnAnyMeshAndRefusesOthers) {
  const std::string check = "check-logits configs/base.yml load_parameters_path='" + model() +
                            "' --golden_logits_path '" + model() + "' --atol 1e-4 --max_kl_div 1e-6";
  ASSERT_EQ(run(check), 0) << out() << err();
  EXPECT_THAT(out(), HasSubstr("all within the limits"));
  ASSERT_EQ(run(check + " ici_context_parallelism=4"), 0) << out() << err();
  EXPECT_THAT(out(), HasSubstr("training forward on 4 devices"));
  ASSERT_EQ(run(check + " ici_context_parallelism=3 ici_data_parallelism=2 --token_size 11"), 0) << out() << err();

  std::ofstream golden(path("golden.jsonl"));
  golden << R"({"prompt": "x", "tokens": [1, 2], "logits": [)" << Json(std::vector<float>(259, 0.5F)) << ","
         << Json(std::vector<float>(259, 0.5F)) << "]}\n";
  golden.close();
  EXPECT_EQ(run("check-logits configs/base.yml load_parameters_path='" + model() + "' --golden_logits_path '" +
                path("golden.jsonl") + "' --max_kl_div 1e-4"),
            1);
  EXPECT_THAT(out(), HasSubstr("FAILED: KL"));
}

TEST_F(DecodeCommand, CheckLogitsNeedsALimitAndGoldenLogits) {
  const std::string check = "check-logits configs/base.yml load_parameters_path='" + model() + "' ";
  expect_error(check + "--golden_logits_path '" + model() + "'", "--atol or --max_kl_div");
  expect_error(check + "--golden_logits_path /nonexistent --atol 1", "/nonexistent");
}

}  // namespace
}  // namespace maxtext
