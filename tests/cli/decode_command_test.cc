// `maxtext decode` and `check-logits` as a user runs them, on the tiny models of the fixtures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/decode_fixture.h"
#include "testing/model_copy.h"
#include "testing/program.h"

namespace maxtext {
namespace {

using Json = nlohmann::json;
using testing::change_json;
using ::testing::HasSubstr;
using testing::OwnedTensor;
using testing::read_tensors;
using testing::write_tensors;
namespace fs = std::filesystem;

/// Waits until the process has a handler of its own for the signal; false when it has none after a while.
bool wait_for_handler(pid_t process, int signal) {
  for (int attempt = 0; attempt < 3000; ++attempt) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string word; status >> word;) {
      std::uint64_t caught = 0;
      if (word == "SigCgt:" && status >> std::hex >> caught && ((caught >> (signal - 1)) & 1U) != 0) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(DecodeCommand, PrintsMaxTextsResultLine) {
  ASSERT_EQ(run(decode("prompt='I love to' max_target_length=80 ignore_eos=true")), 0) << err();
  EXPECT_THAT(out(), HasSubstr("Input `I love to` -> `"));
  EXPECT_TRUE(out().ends_with("`\n")) << out();
  EXPECT_THAT(err(), HasSubstr("tokens/s"));
}

/// Llama 2's decoder, and for every id but the prompt's letters a token with a space.
nlohmann::json tokenizer_of_words() {
  Json vocabulary = {{"▁", 0}, {"a", 1}, {"b", 2}};
  for (int id = 3; id < 259; ++id) vocabulary["▁w" + std::to_string(id)] = id;
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", {{"type", "Prepend"}, {"prepend", "▁"}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", {space, {{"type", "Fuse"}}, strip}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

TEST_F(DecodeCommand, ASpaceBetweenPromptAndAnswerIsPartOfTheAnswer) {
  write("tokenizer.json", tokenizer_of_words().dump());
  const std::string common = "decode configs/base.yml tokenizer_type=huggingface tokenizer_path='" +
                             path("tokenizer.json") + "' load_parameters_path='" + model() +
                             "' prompt=ab max_prefill_predict_length=4 max_target_length=8 ignore_eos=true ";
  ASSERT_EQ(run(common + "--json -"), 0) << err();
  const Json answer = Json::parse(out()).at("answers").at(0);
  ASSERT_EQ(answer.at("prompt_ids"), (std::vector<int>{0, 1, 2}));
  const int first = answer.at("ids").at(0);
  ASSERT_GE(first, 3) << "not a word";
  const auto text = answer.at("text").get<std::string>();
  const std::string word = " w" + std::to_string(first);
  EXPECT_TRUE(text.starts_with(word)) << text;
  // MaxText decodes the answer's ids alone.
  ASSERT_EQ(run(common + "autoregressive_decode_assert='" + text.substr(1) + "'"), 0) << err();
  EXPECT_EQ(out(), "Input `ab` -> `" + text.substr(1) + "`\n");
  ASSERT_EQ(run(common + "--json - stop_strings='[\"" + word + "\"]'"), 0) << err();
  const Json stopped = Json::parse(out()).at("answers").at(0);
  EXPECT_EQ(stopped.at("text"), "");
  EXPECT_EQ(stopped.at("finish_reason"), "stop");
  EXPECT_EQ(stopped.at("ids").size(), 1U);
}

TEST_F(DecodeCommand, JsonHoldsAnswersTimingsAndMemory) {
  ASSERT_EQ(run(decode("prompt=abc max_target_length=80 ignore_eos=true --json -")), 0) << err();
  const Json report = Json::parse(out());
  const Json& answer = report.at("answers").at(0);
  EXPECT_EQ(answer.at("prompt"), "abc");
  EXPECT_EQ(answer.at("finish_reason"), "length");
  EXPECT_EQ(answer.at("ids").size() + answer.at("prompt_ids").size(), 80U);
  const std::string ids = answer.at("ids").dump();
  EXPECT_EQ(std::ranges::count(ids, ','), 75);
  EXPECT_THAT(out(), HasSubstr("\n      \"ids\": " + ids + ",\n")) << "one line";
  EXPECT_GT(report.at("memory").at("kv_cache_bytes").get<std::int64_t>(), 0);
}

/// The first pass through mapped weights also brings them from the disk: it counts neither as loading nor as decoding.
TEST_F(DecodeCommand, LoadingFirstTokenPromptAndAnswerAreTimedApart) {
  ASSERT_EQ(run(decode("prompt=abc max_target_length=80 ignore_eos=true --json -")), 0) << err();
  const Json timings = Json::parse(out()).at("timings");
  const auto seconds = [&](const char* name) { return timings.at(name).get<double>(); };
  EXPECT_GT(seconds("load_seconds"), 0);
  EXPECT_GT(seconds("prefill_seconds"), 0);
  EXPECT_GE(seconds("first_token_seconds"), seconds("prefill_seconds"));
  EXPECT_EQ(timings.at("prefill_tokens"), 4) << "with a beginning of sequence";
  EXPECT_EQ(timings.at("decode_tokens"), 75) << "80 less the prompt and the first, which the prompt gives";
  EXPECT_DOUBLE_EQ(seconds("prefill_tokens_per_second"), 4 / seconds("prefill_seconds"));
  EXPECT_DOUBLE_EQ(seconds("decode_tokens_per_second"), 75 / seconds("decode_seconds"));
  EXPECT_THAT(err(), ::testing::AllOf(HasSubstr("loaded in"), HasSubstr("first token after"),
                                      HasSubstr("prompt: 4 tokens"), HasSubstr("answer: 76 tokens")));
}

/// 2 layers, a KV head of 8 in float32 or in int8 with a scale.
TEST_F(DecodeCommand, TheCacheGrowsWithWhatItHoldsNotWithWhatItMay) {
  const auto cache_bytes = [&](const std::string& arguments) {
    EXPECT_EQ(run(decode("prompt=abc ignore_eos=true --json - " + arguments)), 0) << err();
    EXPECT_THAT(err(), HasSubstr("KV cache"));
    return Json::parse(out()).at("memory").at("kv_cache_bytes").get<std::int64_t>();
  };
  constexpr std::int64_t kPosition = 2 * 2 * 8 * 4;
  EXPECT_EQ(cache_bytes("max_target_length=200"), 200 * kPosition);
  EXPECT_EQ(cache_bytes("max_target_length=300"), 300 * kPosition);
  EXPECT_EQ(cache_bytes("max_target_length=300 quantize_kvcache=true"), 300 * 2 * 2 * (8 + 4));
  // What an answer that ends early might have needed is not allocated.
  ASSERT_EQ(run(decode("prompt=abc ignore_eos=true max_target_length=90 --json -")), 0) << err();
  const Json tenth = Json::parse(out()).at("answers").at(0).at("ids").at(9);
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  change_json(copy / "generation_config.json", {{"eos_token_id", tenth}});
  ASSERT_EQ(run("decode configs/base.yml tokenizer_type=bytes prompt=abc max_target_length=100000 --json - "
                "load_parameters_path='" +
                copy.string() + "'"),
            0)
      << err();
  EXPECT_EQ(Json::parse(out()).at("answers").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(Json::parse(out()).at("memory").at("kv_cache_bytes"), 256 * kPosition);
}

TEST_F(DecodeCommand, CtrlCEndsTheAnswersAndStillPrintsTheStatistics) {
  const std::string json = path("report.json");
  testing::Program program({binary(), "decode", "configs/base.yml", "load_parameters_path=" + model(),
                            "tokenizer_type=bytes", "prompt=abc", "max_target_length=1000000", "ignore_eos=true",
                            "--json", json});
  ASSERT_TRUE(wait_for_handler(program.pid(), SIGINT));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  program.signal(SIGINT);
  const testing::ProgramResult result = program.wait(30);
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.error;
  EXPECT_THAT(result.output, ::testing::AllOf(HasSubstr("Input `abc` -> `"), HasSubstr("`… (cancelled)\n")));
  EXPECT_THAT(result.error, ::testing::AllOf(HasSubstr("tokens/s"), HasSubstr("SIGINT: 1 of 1 answers cancelled")));
  const Json answer = Json::parse(testing::read_file(json)).at("answers").at(0);
  EXPECT_EQ(answer.at("finish_reason"), "cancelled");
  EXPECT_LT(answer.at("ids").size(), 999996U);
}

/// The first answer is long, the others wait for its place.
TEST_F(DecodeCommand, PromptsThatASignalKeptFromBeginningLookUnlikeEmptyAnswers) {
  write("prompts.jsonl", "\"one\"\n\"two\"\n\"three\"\n");
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string json = path("report.json");
    testing::Program program({binary(), "decode", "configs/base.yml", "load_parameters_path=" + model(),
                              "tokenizer_type=bytes", "prompt_file=" + path("prompts.jsonl"), "per_device_batch_size=1",
                              "max_target_length=1000000", "ignore_eos=true", "autoregressive_decode_assert=x",
                              "--json", json});
    ASSERT_TRUE(wait_for_handler(program.pid(), signal));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    program.signal(signal);
    const testing::ProgramResult result = program.wait(30);
    EXPECT_EQ(result.exit_code, 128 + signal) << result.error;
    EXPECT_THAT(result.output, ::testing::AllOf(HasSubstr("Input `one` -> `"),
                                                HasSubstr("Input `two`: cancelled before its answer began\n"),
                                                HasSubstr("Input `three`: cancelled before its answer began\n")));
    EXPECT_THAT(result.error, ::testing::AllOf(HasSubstr("tokens/s"), HasSubstr("3 of 3 answers cancelled")));
    const Json answers = Json::parse(testing::read_file(json)).at("answers");
    ASSERT_EQ(answers.size(), 3U);
    for (const Json& answer : answers) EXPECT_EQ(answer.at("finish_reason"), "cancelled");
    EXPECT_GT(answers.at(0).at("ids").size(), 0U);
    EXPECT_EQ(answers.at(2).at("ids").size(), 0U);
  }
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

TEST_F(DecodeCommand, AGreedyAnswerHasNoSeed) {
  ASSERT_EQ(run(decode("prompt=abc max_target_length=65 --json -")), 0) << err();
  EXPECT_TRUE(Json::parse(out()).at("seed").is_null());
  EXPECT_THAT(err(), ::testing::Not(HasSubstr("decode_sampling_seed")));
}

TEST_F(DecodeCommand, TemperaturesNear0AreGreedyAndPenaltiesOutOfRangeRefused) {
  const std::string common = "prompt=abc max_target_length=80 ignore_eos=true --json - ";
  ASSERT_EQ(run(decode(common)), 0) << err();
  const Json greedy = Json::parse(out()).at("answers");
  for (const std::string temperature : {"1e-7", "1e-39", "1e-300"}) {
    ASSERT_EQ(run(decode(common + "decode_sampling_strategy=weighted decode_sampling_temperature=" + temperature)), 0)
        << err();
    EXPECT_EQ(Json::parse(out()).at("answers"), greedy) << temperature;
  }
  for (const std::string penalty : {"0", "-1", "1e-60", "1e60"}) {
    expect_error(decode("decode_sampling_repetition_penalty=" + penalty), "expected a finite number, 0.001 to 1000");
  }
}

TEST_F(DecodeCommand, KeysOfSamplingThatTheStrategyDoesNotCountAreNoted) {
  const auto expect_noted = [&](const std::string& arguments, const std::vector<std::string>& names) {
    ASSERT_EQ(run(decode("prompt=abc max_target_length=65 " + arguments)), 0) << err();
    EXPECT_EQ(err().find("without effect") != std::string::npos, !names.empty()) << err();
    for (const std::string& name : names) EXPECT_THAT(err(), HasSubstr(name));
  };
  expect_noted(
      "decode_sampling_temperature=0.7 decode_sampling_top_k=4 decode_sampling_nucleus_p=0.9 "
      "decode_sampling_min_p=0.1 decode_sampling_seed=3",
      {"without effect here: decode_sampling_temperature (decode_sampling_strategy=greedy)", "decode_sampling_top_k (",
       "decode_sampling_nucleus_p (", "decode_sampling_min_p (", "decode_sampling_seed ("});
  expect_noted("decode_sampling_strategy=weighted decode_sampling_top_k=4 decode_sampling_temperature=0.7",
               {"without effect here: decode_sampling_top_k (decode_sampling_strategy=weighted)\n"});
  expect_noted("decode_sampling_strategy=topk decode_sampling_top_k=4 decode_sampling_nucleus_p=0.9",
               {"without effect here: decode_sampling_nucleus_p (decode_sampling_strategy=topk)\n"});
  expect_noted("decode_sampling_strategy=nucleus decode_sampling_top_k=4 decode_sampling_nucleus_p=0.9",
               {"without effect here: decode_sampling_top_k (decode_sampling_strategy=nucleus)\n"});
  expect_noted("decode_sampling_repetition_penalty=1.1 decode_sampling_temperature=1 decode_sampling_top_k=0", {});
  expect_noted(
      "decode_sampling_strategy=composite decode_sampling_top_k=4 decode_sampling_nucleus_p=0.9 "
      "decode_sampling_temperature=0.7 decode_sampling_min_p=0.1 decode_sampling_seed=3",
      {});
}

TEST_F(DecodeCommand, WeightsThatAreNotANumberEndWithAnError) {
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  std::vector<OwnedTensor> tensors = read_tensors(copy / "model.safetensors");
  OwnedTensor& norm = *std::ranges::find(tensors, "model.norm.weight", &OwnedTensor::name);
  std::ranges::fill(norm.bytes, std::byte{0xFF});
  write_tensors(copy / "model.safetensors", tensors);
  for (const std::string strategy : {"greedy", "weighted"}) {
    expect_error("decode configs/base.yml tokenizer_type=bytes max_target_length=70 load_parameters_path='" +
                     copy.string() + "' decode_sampling_strategy=" + strategy,
                 "the logit of token 0 is nan", 1);
  }
}

TEST_F(DecodeCommand, ATokenizerLargerThanTheModelIsNotedAndATokenBeyondItRefused) {
  // The bytes tokenizer has 258 tokens, the last two special.
  const std::string random =
      "decode configs/base.yml model_name=llama-tiny override_model_config=true tokenizer_type=bytes "
      "max_target_length=65 ";
  ASSERT_EQ(run(random + "vocab_size=256 add_bos=false"), 0) << err();
  EXPECT_THAT(err(), HasSubstr("maxtext: note: the tokenizer has ids up to 257, the model only vocab_size=256"));
  expect_error(random + "vocab_size=256 add_bos=true", "prompt: the tokenizer gives the id 256");
  for (const std::string padded : {"258", "320"}) {
    ASSERT_EQ(run(random + "vocab_size=" + padded), 0) << err();
    EXPECT_THAT(err(), ::testing::Not(HasSubstr("maxtext: note")));
  }
}

TEST_F(DecodeCommand, SequencesBeyondTheModelsPositionsAreNoted) {
  ASSERT_EQ(run(decode("prompt=abc max_target_length=257")), 0) << err();
  EXPECT_THAT(err(), HasSubstr("maxtext: note: max_target_length=257 (command line) is more than the model's "
                               "max_position_embeddings=256"));
  ASSERT_EQ(run(decode("prompt=abc max_target_length=256")), 0) << err();
  EXPECT_THAT(err(), ::testing::Not(HasSubstr("maxtext: note")));
}

TEST_F(DecodeCommand, ASharedCacheGivesTheSameAnswer) {
  const std::string rest = "prompt='a prompt of some bytes' max_target_length=120 prefill_chunk_size=16 --json -";
  ASSERT_EQ(run(decode(rest)), 0) << err();
  const Json alone = Json::parse(out()).at("answers");
  ASSERT_EQ(run(decode(rest + " ici_context_autoregressive_parallelism=2")), 0) << err();
  EXPECT_EQ(Json::parse(out()).at("answers"), alone);
}

/// Without a page that is given.
TEST_F(DecodeCommand, AShortCacheIsSharedAndNoLargerThanOne) {
  const std::string rest = "prompt='a prompt of some bytes' max_target_length=72 ignore_eos=true --json - ";
  ASSERT_EQ(run(decode(rest)), 0) << err();
  const Json alone = Json::parse(out());
  for (const int devices : {2, 4}) {
    ASSERT_EQ(run(decode(rest + "ici_context_autoregressive_parallelism=" + std::to_string(devices))), 0) << err();
    const Json shared = Json::parse(out());
    EXPECT_EQ(shared.at("answers"), alone.at("answers"));
    EXPECT_EQ(shared.at("memory").at("kv_cache_bytes"), alone.at("memory").at("kv_cache_bytes"));
    EXPECT_THAT(err(), ::testing::Not(HasSubstr("maxtext: note")));
  }
  ASSERT_EQ(run(decode(rest + "ici_context_autoregressive_parallelism=8")), 0) << err();
  EXPECT_EQ(Json::parse(out()).at("answers"), alone.at("answers"));
  EXPECT_THAT(err(), HasSubstr("maxtext: note: max_target_length=72 (command line) are 5 pages of 16: 3 of 8 devices "
                               "hold nothing of the KV cache"));
}

TEST_F(DecodeCommand, MoreDevicesThanThreadsCanBeAreRefused) {
  const std::string expected = "devices, each a thread of this process: expected at most 1024";
  expect_error(decode("ici_context_autoregressive_parallelism=1025"), "1025 " + expected);
  expect_error(decode("ici_context_autoregressive_parallelism=64 ici_autoregressive_parallelism=17"),
               "1088 " + expected);
}

/// Positions are dealt to devices; random weights are there for each of them.
TEST_F(DecodeCommand, TheMemoryThatIsNeededIsThatOfAllDevices) {
  const std::string huge =
      "decode configs/base.yml model_name=llama2-7b tokenizer_type=bytes max_target_length=1000000 ";
  expect_error(huge, "25.10 GiB of weights and 976.56 GiB of KV cache");
  expect_error(huge + "ici_context_autoregressive_parallelism=4", "100.41 GiB of weights and 976.56 GiB of KV cache");
}

/// What one set of weights is read at: this model's head is its embedding, so a token reads all of them.
TEST_F(DecodeCommand, WeightsAreReadOncePerTokenHoweverManyDevicesThereAre) {
  for (const std::string devices : {"1", "3"}) {
    ASSERT_EQ(run(decode("prompt=abc max_target_length=80 ignore_eos=true --json - "
                         "ici_context_autoregressive_parallelism=" +
                         devices)),
              0)
        << err();
    const Json report = Json::parse(out());
    const Json& timings = report.at("timings");
    EXPECT_NEAR(timings.at("weight_gigabytes_per_second").get<double>() /
                    (timings.at("decode_tokens_per_second").get<double>() *
                     report.at("memory").at("weight_bytes").get<double>() / 1e9),
                1, 1e-9)
        << devices;
  }
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
  expect_error(decode("'stop_strings=[a, \"\"]'"), "stop_strings=[a, \"\"] (command line): a stop string is empty");
  expect_error(decode("prompt_file=/nonexistent/prompts.txt"), "prompt_file=/nonexistent/prompts.txt");
  expect_error("decode configs/base.yml load_parameters_path=/nonexistent tokenizer_type=bytes",
               "load_parameters_path=/nonexistent");
  expect_error("decode configs/base.yml load_parameters_path='" + model() + "'", "tokenizer_path is empty");
  expect_error("decode configs/base.yml model_name=llama2-7b tokenizer_type=bytes max_target_length=1000000",
               "not enough memory");
}

TEST_F(DecodeCommand, APromptThatCannotBeReadIsOneLineThatNamesItsPlace) {
  const auto expect_file_error = [&](const std::string& name, const std::string& text, const std::string& message,
                                     const std::string& more = "") {
    write(name, text);
    expect_error(decode("prompt_file='" + path(name) + "' " + more), "error: " + path(name) + ": " + message);
  };
  expect_file_error("bad.txt", "ab\xff", "byte 2 is not UTF-8");
  expect_file_error("bad.jsonl", "\"a\"\n\"\xff\"\n", "byte 5 is not UTF-8");
  expect_error(decode("prompt=\"$(printf 'ab\\377')\""), "prompt: byte 2 is not UTF-8");
  expect_file_error("odd.jsonl", "\"a\"\n[1]\n", "line 2: expected a string");
  expect_file_error("odd.jsonl", "\"a\"\n\n{\n", "line 3: not valid JSON at byte 2");

  // Wherever an empty prompt comes from.
  expect_file_error("empty.jsonl", "\n", "there is no prompt");
  expect_file_error("empty.jsonl", "\"a\"\n\"\"\n", "line 2: the prompt is empty");
  expect_file_error("empty.jsonl", "{\"prompt\": \"\"}\n", "line 1: the prompt is empty");
  expect_file_error("empty.txt", "\n", "the prompt is empty");
  expect_error(decode("prompt="), "prompt: the prompt is empty");
  expect_error(decode("prompt_file=-"), "standard input: the prompt is empty");

  const std::string limit = "max_prefill_predict_length=4";
  const std::string too_long = "the prompt has 5 tokens, expected at most max_prefill_predict_length=4";
  expect_file_error("long.jsonl", "\"abc\"\n\n\"abcd\"\n", "line 3: " + too_long, limit);
  expect_file_error("long.txt", "abcd\n", too_long, limit);
  expect_error(decode("prompt=abcd " + limit), "prompt: " + too_long);
}

TEST_F(DecodeCommand, PromptsComeFromOneKey) {
  write("prompt.txt", "abc");
  const std::string file = "prompt_file='" + path("prompt.txt") + "' max_target_length=65 ";
  expect_error(decode(file + "prompt=abc"),
               "prompt and prompt_file=" + path("prompt.txt") + " are both given (command line)");
  expect_error(decode(file + "prompt='I love to'"), "prompt and prompt_file=");
  ASSERT_EQ(run(decode(file + "prompt=")), 0) << err();
  EXPECT_THAT(out(), HasSubstr("Input `abc` -> `"));
}

/// As of two values of one key.
TEST_F(DecodeCommand, OfPromptAndPromptFileTheLaterSourceCounts) {
  write("prompt.txt", "abc");
  const fs::path configs = testing::fixture_root().parent_path().parent_path() / "configs";
  fs::copy_file(configs / "base.yml", path("base.yml"));
  const std::string rest = "' tokenizer_type=bytes max_target_length=65 load_parameters_path='" + model() + "' ";
  const auto expect_prompt = [&](const std::string& keys, const std::string& arguments, const std::string& prompt) {
    write("run.yml", "base_config: base.yml\n" + keys);
    ASSERT_EQ(run("decode '" + path("run.yml") + rest + arguments), 0) << err();
    EXPECT_THAT(out(), HasSubstr("Input `" + prompt + "` -> `"));
  };
  const std::string file = path("prompt.txt");
  expect_prompt("prompt: of the run\n", "prompt_file='" + file + "'", "abc");
  expect_prompt("prompt_file: " + file + "\n", "prompt='of the line'", "of the line");
  expect_prompt("prompt_file: " + file + "\n", "prompt=", "abc");
  expect_prompt("prompt_file: " + file + "\nprompt: ''\n", "", "abc");
  expect_prompt("prompt_file: " + file + "\n", "prompt_file=", "I love to");
  write("run.yml", "base_config: base.yml\nprompt: x\nprompt_file: " + file + "\n");
  expect_error("decode '" + path("run.yml") + rest,
               "prompt and prompt_file=" + file + " are both given (" + path("run.yml") + ":3)");
}

/// A file's name that the key names, too, is said once, and none that is empty.
TEST_F(DecodeCommand, MessagesNameAPathOnce) {
  const auto expect_once = [&](const std::string& arguments, const std::string& name) {
    EXPECT_EQ(run(arguments), 2) << err();
    const std::size_t at = err().find(name);
    ASSERT_NE(at, std::string::npos) << err();
    EXPECT_EQ(err().find(name, at + 1), std::string::npos) << err();
  };
  const std::string command = "decode configs/base.yml tokenizer_type=bytes load_parameters_path=";
  expect_once(command + "/nonexistent", "/nonexistent");
  write("model.gguf", "GGUF");
  expect_once(command + "'" + path("model.gguf") + "'", "model.gguf");
  write("model.safetensors", "");
  expect_once(command + "'" + path("model.safetensors") + "'", "model.safetensors: a");
  fs::create_directory(path("folder"));
  expect_once(command + "'" + path("folder") + "'", path("folder"));
  expect_once("decode /nonexistent.yml", "/nonexistent.yml");
  const std::string train = "train configs/base.yml model_name=llama-tiny run_name=x base_output_directory='" +
                            path("runs") + "' load_parameters_path='" + path("folder");
  expect_once(train + "'", path("folder"));
  expect_once(train + "/'", path("folder"));
  fs::create_directories(path("folder/checkpoints"));
  const std::string resumed = "train configs/base.yml model_name=llama-tiny run_name=x base_output_directory='" +
                              path("runs") + "' load_full_state_path='" + path("folder") + "'";
  expect_once(resumed, path("folder"));
  EXPECT_THAT(err(), HasSubstr("load_full_state_path=" + path("folder") + ": it is a run directory without"));
  expect_error("decode ''", "the first argument has to be a configuration file");
}

TEST_F(DecodeCommand, AnOldReportIsKeptUntilThereIsANewOne) {
  write("report.json", "old");
  const std::string json = " --json '" + path("report.json") + "'";
  expect_error(decode("prompt=" + json), "prompt");
  expect_error(decode("prompt_file=/nonexistent" + json), "prompt_file=/nonexistent");
  EXPECT_EQ(testing::read_file(path("report.json")), "old");
  ASSERT_EQ(run(decode("prompt=abc max_target_length=70" + json)), 0) << err();
  EXPECT_EQ(testing::read_file(path("report.json")).front(), '{');
  expect_error(decode("--json /nonexistent/report.json"), "/nonexistent/report.json: cannot be written");
  for (const std::string option : {"--json", "--save_logits", "--golden_logits_path"}) {
    const std::string command = option == "--json" ? "decode" : "check-logits";
    expect_error(command + " configs/base.yml " + option + " ''", option + ": expected a value, got an empty text");
  }
  write("text.txt", "a text");
  const std::string eval =
      "eval configs/base.yml tokenizer_type=bytes dataset_type=text max_target_length=8 dataset_path='" +
      path("text.txt") + "' load_parameters_path='" + model() + "'";
  ASSERT_EQ(run(eval + " --json -"), 0) << err();
  EXPECT_GT(Json::parse(out()).at("tokens").get<int>(), 0);
}

TEST_F(DecodeCommand, AnAnswerThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(run(decode("prompt=abc max_target_length=70 >/dev/full")), 1);
  EXPECT_THAT(err(), HasSubstr("standard output cannot be written"));
  expect_error("--version >/dev/full", "standard output cannot be written", 1);
}

TEST_F(DecodeCommand, AnAnswerThatASignalEndedAndThatCannotBeWrittenIsAFailureToo) {
  testing::Program program(
      {"sh", "-c",
       "exec '" + binary() + "' " + decode("prompt=abc max_target_length=1000000 ignore_eos=true >/dev/full")});
  ASSERT_TRUE(wait_for_handler(program.pid(), SIGINT));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  program.signal(SIGINT);
  const testing::ProgramResult result = program.wait(30);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error,
              ::testing::AllOf(HasSubstr("1 of 1 answers cancelled"), HasSubstr("standard output cannot be written")));
}

TEST_F(DecodeCommand, NumbersOutOfRangeAreNamedInAFewWords) {
  expect_error("check-logits configs/base.yml --token_size 0", "--token_size: has to be more than 0, not 0");
  expect_error("check-logits configs/base.yml --atol -1", "--atol: has to be at least 0, not -1");
}

TEST_F(DecodeCommand, WhatIsNotItsInputIsRefused) {
  expect_error("decode configs/base.yml tokenizer_type=bytes load_full_state_path=runs/mine",
               "decode reads load_parameters_path");
  expect_error(
      "eval configs/base.yml tokenizer_type=bytes dataset_type=synthetic load_parameters_path='" + model() + "'",
      "dataset_type=synthetic: eval needs a text");
}

TEST_F(DecodeCommand, WeightsThatAreDamagedOrNotThereNameKeyFileAndTensor) {
  write("text.txt", "a text");
  const fs::path qwen = testing::copy_model("qwen2", path(""));
  const Json index = Json::parse(testing::read_file(qwen / "model.safetensors.index.json"));
  const std::string moved = "model.layers.0.mlp.up_proj.weight";
  const std::string shard = index.at("weight_map").at(moved);
  const std::string other = shard == "model-00001-of-00005.safetensors" ? "model-00002-of-00005.safetensors"
                                                                        : "model-00001-of-00005.safetensors";
  change_json(qwen / "model.safetensors.index.json", {{"weight_map", {{moved, other}}}});
  expect_model_error(qwen, {"'" + moved + "': expected in " + other + ", which does not have it"});
  fs::remove(qwen / shard);
  change_json(qwen / "model.safetensors.index.json", {{"weight_map", {{moved, shard}}}});
  expect_model_error(qwen, {shard, "No such file"});

  const fs::path copy = testing::copy_model("llama-tied", path(""));
  const std::string whole = testing::read_file(copy / "model.safetensors");
  write("llama-tied/model.safetensors", whole.substr(0, whole.size() - 1));
  expect_model_error(copy, {"model.safetensors: tensor", "truncated"});
  write("llama-tied/model.safetensors", whole + " ");
  expect_model_error(copy, {"model.safetensors: the tensors take"});
  write("llama-tied/model.safetensors", "not a header of a safetensors file");
  expect_model_error(copy, {"not a safetensors file"});
  fs::remove(copy / "model.safetensors");
  expect_model_error(copy, {"no weights: expected a Hugging Face directory"});
}

TEST_F(DecodeCommand, WeightsOfAnotherModelNameTensorAndBothShapes) {
  write("text.txt", "a text");
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  const fs::path file = copy / "model.safetensors";
  const std::vector<OwnedTensor> right = read_tensors(file);
  const std::string up = "model.layers.1.mlp.up_proj.weight";
  const auto place = static_cast<std::size_t>(std::ranges::find(right, up, &OwnedTensor::name) - right.begin());

  std::vector<OwnedTensor> tensors = right;
  tensors[place].spec.shape = {64, 96};
  write_tensors(file, tensors);
  expect_model_error(copy, {"tensor '" + up + "': expected the shape [128, 48], found [64, 96]"});
  tensors = right;
  tensors[place].spec.dtype = DType::int8;
  tensors[place].bytes.resize(std::size_t{128} * 48);
  write_tensors(file, tensors);
  expect_model_error(copy, {"tensor '" + up + "': expected float32, bfloat16 or float16, found int8"});
  tensors = right;
  std::erase_if(tensors, [&](const OwnedTensor& tensor) { return tensor.name == up; });
  write_tensors(file, tensors);
  expect_model_error(copy, {"there is no tensor '" + up + "', expected with the shape [128, 48]"});
  tensors = right;
  tensors.push_back({"model.layers.1.mlp.up_proj.bias", {{4}, DType::uint8}, std::vector<std::byte>(4)});
  write_tensors(file, tensors);
  expect_model_error(copy, {"tensor 'model.layers.1.mlp.up_proj.bias' is not part of this model"});
  // The cause may as well be the configuration.
  write_tensors(file, right);
  change_json(copy / "config.json", {{"num_hidden_layers", 3}});
  expect_model_error(copy, {"there is no tensor 'model.layers.2."});
}

TEST_F(DecodeCommand, ModelsThatWouldBeComputedWronglyAreRefused) {
  write("text.txt", "a text");
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  const auto expect_config = [&](const Json& changes, const std::string& part) {
    testing::copy_model("llama-tied", path(""));
    change_json(copy / "config.json", changes);
    expect_model_error(copy, {"config.json: " + part});
  };
  expect_config({{"model_type", "mamba"}}, "model_type=mamba: unknown model family; known are llama");
  expect_config({{"rope_parameters", nullptr}, {"rope_scaling", {{"type", "longrope"}, {"factor", 4}}}},
                "rope_scaling: type=\"longrope\": expected default, linear, llama3 or yarn");
  expect_config({{"eos_token_id", "</s>"}}, "eos_token_id=\"</s>\": expected a token's number");
  testing::copy_model("llama-tied", path(""));
  write("llama-tied/generation_config.json", "{");
  expect_model_error(copy, {"generation_config.json: not valid JSON"});
  write("llama-tied/config.json", "{");
  expect_model_error(copy, {"config.json: not valid JSON"});
  fs::remove(copy / "config.json");
  expect_model_error(copy, {"there is no config.json; name the model with model_name"});
}

TEST_F(DecodeCommand, GgufFilesAreSaidNotToBeSupportedYet) {
  write("text.txt", "a text");
  write("model.gguf", "GGUF\3 and so on");
  expect_model_error(path("model.gguf"), {"model.gguf: GGUF files are not supported yet: expected a Hugging Face"});
  fs::create_directory(path("folder"));
  fs::copy(path("model.gguf"), path("folder/some-name.gguf"));
  expect_model_error(path("folder"), {"some-name.gguf: GGUF files are not supported yet"});
}

TEST_F(DecodeCommand, TokenizersThatAreMissingOrNotSupportedNameWhatLedToThem) {
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  const std::string command = "decode configs/base.yml load_parameters_path='" + copy.string() + "'";
  expect_error(command, copy.string() + " has no tokenizer.json or tokenizer.model");
  write("llama-tied/tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []}})");
  const std::string key = "load_parameters_path=" + copy.string() + ": ";
  expect_error(command, key + "tokenizer.json: ");
  EXPECT_THAT(err(), ::testing::AllOf(HasSubstr("Unigram"), HasSubstr("BPE")));
  write("llama-tied/tokenizer.json", "{\"model\": ");
  expect_error(command, key + "tokenizer.json: not valid JSON at byte 11");
  fs::remove(copy / "tokenizer.json");
  write("llama-tied/tokenizer.model", "junk");
  write("text.txt", "a text");
  for (const std::string& evaluation : {command, "eval configs/base.yml eval_files='" + path("text.txt") +
                                                     "' load_parameters_path='" + copy.string() + "'"}) {
    expect_error(evaluation, "error: " + key + "tokenizer.model: not a sentencepiece model");
    expect_error(evaluation + " tokenizer_path='" + copy.string() + "'",
                 "error: tokenizer_path=" + copy.string() + ": tokenizer.model: not a sentencepiece model");
    expect_error(evaluation + " tokenizer_type=huggingface", "error: " + key + "tokenizer.json: no such file");
  }
}

TEST_F(DecodeCommand, FilesThatContradictEachOtherAboutTheHeadAreReadWithAWarning) {
  write("text.txt", "a text");
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  std::vector<OwnedTensor> tensors = read_tensors(copy / "model.safetensors");
  OwnedTensor head = *std::ranges::find(tensors, "model.embed_tokens.weight", &OwnedTensor::name);
  head.name = "lm_head.weight";
  head.bytes.assign(head.bytes.size(), std::byte{0});
  tensors.push_back(head);
  write_tensors(copy / "model.safetensors", tensors);
  const std::string rest = " tokenizer_type=bytes load_parameters_path='" + copy.string() + "'";
  for (const std::string& command :
       {"decode configs/base.yml prompt=abc max_target_length=70" + rest,
        "eval configs/base.yml dataset_type=text dataset_path='" + path("text.txt") + "'" + rest,
        "check-logits configs/base.yml --atol 1e-4 --golden_logits_path '" + model() + "'" + rest}) {
    EXPECT_EQ(run(command), 0) << command << "\n" << out() << err();
    EXPECT_THAT(err(), HasSubstr("lm_head.weight is not model.embed_tokens.weight")) << command;
  }
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
  write("golden.safetensors", "12345678{}");
  expect_error(check + "--golden_logits_path '" + path("golden.safetensors") + "' --atol 1",
               "golden logits " + path("golden.safetensors") + ": the safetensors header claims");
}

}  // namespace
}  // namespace maxtext
