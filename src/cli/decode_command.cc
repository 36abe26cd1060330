#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/bench/stream_read.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/engine_environment.h"
#include "cli/json_file.h"
#include "inference/decode.h"
#include "mesh/device_program.h"
#include "train/signals.h"

namespace maxtext {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGigabyte = 1e9;

/// The mesh of training: of its axes generation has ici_tensor_parallelism, and ici_context_autoregressive_parallelism.
constexpr std::array<std::string_view, 9> kKeysOfTraining = {"num_devices",
                                                             "num_slices",
                                                             "ici_data_parallelism",
                                                             "ici_fsdp_parallelism",
                                                             "ici_context_parallelism",
                                                             "dcn_data_parallelism",
                                                             "dcn_fsdp_parallelism",
                                                             "dcn_context_parallelism",
                                                             "dcn_tensor_parallelism"};

/// Keys of sampling that the strategy does not count, as notes name them.
std::vector<std::string> sampling_notes(const Config& config) {
  std::vector<std::string> names = unused_sampling_keys(config);
  for (std::string& name : names) {
    name += fmt::format(" (decode_sampling_strategy={})", config.text("decode_sampling_strategy"));
  }
  return names;
}

/// Bytes per second that this machine reads, quickly: for a share, not for a record.
double quick_read_bandwidth() {
  const auto threads = static_cast<int>(split_cores(1).front().size());
  bench::StreamRead read(std::int64_t{256} << 20U, threads);
  double best = 0;
  for (int pass = 0; pass < 4; ++pass) best = std::max(best, read.measure(2));
  return best;
}

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

struct Speeds {
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;
  double bytes_per_second = 0;
  double share_of_bandwidth = 0;
};

Speeds speeds_of(const DecodeReport& report) {
  const GenerationTimes& times = report.outcome.times;
  Speeds speeds;
  speeds.prefill_tokens_per_second = rate(static_cast<double>(times.prefill_tokens), times.prefill_seconds);
  speeds.decode_tokens_per_second = rate(static_cast<double>(times.decode_tokens), times.decode_seconds);
  speeds.bytes_per_second =
      rate(static_cast<double>(report.weight_bytes_per_step) * static_cast<double>(times.decode_steps),
           times.decode_seconds);
  if (times.decode_steps > 0) speeds.share_of_bandwidth = speeds.bytes_per_second / quick_read_bandwidth();
  return speeds;
}

bool is_greedy(const DecodeSetup& setup) { return setup.requests.front().sampling.greedy; }

Json json_report(const DecodeSetup& setup, const DecodeReport& report, const Speeds& speeds) {
  Json answers = Json::array();
  for (std::size_t i = 0; i < setup.prompts.size(); ++i) {
    const TextAnswer& answer = report.outcome.answers[i];
    answers.push_back({{"prompt", setup.prompts[i].text},
                       {"prompt_ids", setup.requests[i].prompt},
                       {"text", answer.text},
                       {"ids", answer.ids},
                       {"finish_reason", finish_reason_name(answer.finish_reason)}});
  }
  const GenerationTimes& times = report.outcome.times;
  return {{"answers", answers},
          {"load_parameters_path", setup.files.directory.string()},
          {"seed", is_greedy(setup) ? Json() : Json(setup.sampling_seed)},
          {"random_weights", setup.files.weights == nullptr},
          {"timings",
           {{"load_seconds", report.load_seconds},
            {"first_token_seconds", times.first_token_seconds > 0 ? Json(times.first_token_seconds) : Json()},
            {"prefill_seconds", times.prefill_seconds},
            {"prefill_tokens", times.prefill_tokens},
            {"prefill_tokens_per_second", speeds.prefill_tokens_per_second},
            {"decode_seconds", times.decode_seconds},
            {"decode_tokens", times.decode_tokens},
            {"decode_tokens_per_second", speeds.decode_tokens_per_second},
            {"weight_gigabytes_per_second", speeds.bytes_per_second / kGigabyte},
            {"share_of_read_bandwidth", speeds.share_of_bandwidth}}},
          {"memory",
           {{"weight_bytes", report.weight_bytes},
            {"kv_cache_bytes", report.cache_bytes},
            {"peak_resident_bytes", report.peak_resident_bytes}}}};
}

void print_statistics(const DecodeSetup& setup, const DecodeReport& report, const Speeds& speeds) {
  const GenerationTimes& times = report.outcome.times;
  std::size_t answer_tokens = 0;
  for (const TextAnswer& answer : report.outcome.answers) answer_tokens += answer.ids.size();
  fmt::print(
      stderr, "loaded in {:.3f} s, {}; prompt: {} tokens, {:.1f} tokens/s; answer: {} tokens, {:.1f} tokens/s",
      report.load_seconds,
      answer_tokens > 0 ? fmt::format("first token after {:.3f} s", times.first_token_seconds) : "no first token",
      times.prefill_tokens, speeds.prefill_tokens_per_second, answer_tokens, speeds.decode_tokens_per_second);
  if (times.decode_steps > 0) {
    fmt::print(stderr, " ({:.2f} GB/s of weights, {:.0f}% of read bandwidth)", speeds.bytes_per_second / kGigabyte,
               100 * speeds.share_of_bandwidth);
  }
  fmt::print(stderr, "; KV cache {:.1f} MiB, peak memory {:.1f} MiB\n",
             static_cast<double>(report.cache_bytes) / 1048576.0,
             static_cast<double>(report.peak_resident_bytes) / 1048576.0);
  if (!is_greedy(setup)) fmt::print(stderr, "decode_sampling_seed={}\n", setup.sampling_seed);
}

bool is_cancelled(const TextAnswer& answer) { return answer.finish_reason == FinishReason::cancelled; }

/// MaxText's result line, for each prompt.
void print_answers(const DecodeSetup& setup, const DecodeReport& report) {
  for (std::size_t i = 0; i < setup.prompts.size(); ++i) {
    const TextAnswer& answer = report.outcome.answers[i];
    if (is_cancelled(answer) && answer.ids.empty()) {
      fmt::print("Input `{}`: cancelled before its answer began\n", setup.prompts[i].text);
    } else {
      fmt::print("Input `{}` -> `{}`{}\n", setup.prompts[i].text, answer.text_alone,
                 is_cancelled(answer) ? "… (cancelled)" : "");
    }
  }
}

void check_assertion(const Config& config, const DecodeReport& report) {
  const std::string& expected = config.text("autoregressive_decode_assert");
  if (expected.empty()) return;
  for (const TextAnswer& answer : report.outcome.answers) {
    if (answer.text_alone != expected) {
      fail("autoregressive_decode_assert: expected the answer `{}`, got `{}`", expected, answer.text_alone);
    }
  }
}

}  // namespace

int decode_command(const Arguments& arguments) {
  CommandLine command_line("maxtext decode",
                           "Continue prompts with a model from a Hugging Face directory or a checkpoint.");
  Arguments rest;
  std::string json_path;
  command_line.config_option(rest);
  command_line.option("--json", json_path, "Write answers, timings and memory to this file; - for standard output");
  if (!command_line.parse(arguments)) return 0;
  ConfigRequest request = config_request(rest);
  request.check_files = false;
  const Config config = load_config(request);
  note_ignored_keys(config, kKeysOfTraining, sampling_notes(config));
  if (config.text("load_parameters_path").empty() && !config.text("load_full_state_path").empty()) {
    fail_config("load_full_state_path={}: is for training; decode reads load_parameters_path",
                config.text("load_full_state_path"));
  }
  const DecodeSetup setup = decode_setup(config);
  JsonFile json_file(json_path, [&] { return input_files(request.file, config); });
  print_warnings(setup.files.warnings);
  print_notes(setup.notes);
  if (setup.files.weights == nullptr) {
    fmt::print(stderr, "load_parameters_path is empty: the weights are random, init_weights_seed={}\n",
               setup.weights_seed);
  }

  const StopSignal stop;
  const bool stream = ::isatty(STDOUT_FILENO) != 0 && setup.prompts.size() == 1 && !json_file.is_standard_output();
  TextListener listener;
  listener.cancel = [&stop] { return stop.requested(); };
  if (stream) {
    std::cout << setup.prompts.front().text << std::flush;
    listener.text = [](std::size_t, const std::string& piece) { std::cout << piece << std::flush; };
    listener.finished = [](std::size_t, FinishReason) { std::cout << std::endl; };
  }
  const DecodeReport report = decode(setup, engine_environment(config, setup.mesh.device_count(), true), listener);
  const Speeds speeds = speeds_of(report);
  if (!stream && !json_file.is_standard_output()) print_answers(setup, report);
  json_file.write(json_report(setup, report, speeds));
  std::cout << std::flush;
  print_statistics(setup, report, speeds);
  if (const auto cancelled = std::ranges::count_if(report.outcome.answers, is_cancelled); cancelled > 0) {
    fmt::print(stderr, "{}: {} of {} answers cancelled\n", stop.name(), cancelled, setup.prompts.size());
    return 128 + stop.number();
  }
  check_assertion(config, report);
  return 0;
}

}  // namespace maxtext
