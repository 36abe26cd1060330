#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compile_report.h"
#include "cli/json_file.h"
#include "cli/resident_memory.h"
#include "cli/step_prediction.h"
#include "data/dataset_factory.h"
#include "mesh/device_program.h"
#include "train/step_flops.h"

namespace maxtext {
namespace {

using Json = nlohmann::ordered_json;

/// Rows are planned one by one, and balancing the tokens of a row takes time by its devices; with more than this,
/// seconds become minutes.
constexpr std::int64_t kMostRows = 1 << 16;
constexpr int kMostDevices = 1 << 16;

/// The plan of the data's first batch.
ContextPlan first_batch_plan(const DatasetOptions& data, const RunSetup& setup) {
  BatchProvider provider(open_dataset(data, Split::train), 0, setup.batch.global, setup.plan);
  const std::shared_ptr<const PlannedBatch> batch = provider.get(0);
  if (batch == nullptr) fail("the data has fewer than the {} rows of a batch", setup.batch.global);
  return batch->plan;
}

double imbalance_without_reordering(const ContextPlan& plan) {
  ContextPlanRequest request;
  request.sequence_length = plan.sequence_length();
  for (std::int64_t row = 0; row < plan.rows(); ++row) {
    const auto& lengths = plan.document_lengths(row);
    request.document_lengths.emplace_back(lengths.begin(), lengths.end());
  }
  request.attention_types = plan.attention_types();
  request.context_parallelism = plan.context_parallelism();
  request.reorder = ReorderStrategy::none;
  return ContextPlan(std::move(request)).imbalance();
}

Json process_report(const RunSetup& setup, const ContextPlan& plan, Placing placing, int wanted_threads) {
  const int local_devices = placing == Placing::one_process ? setup.mesh.device_count() : 1;
  const auto cores = static_cast<int>(split_cores(local_devices).front().size());
  const DeviceMemory device = device_memory(setup, plan, placing, wanted_threads > 0 ? wanted_threads : cores);
  return {{"devices_per_process", local_devices},
          {"tensor_bytes_per_device", device.tensors},
          {"scratch_bytes_per_device", device.scratch()},
          {"resident_bytes_per_process", resident_bytes_of_process(device, local_devices)}};
}

/// Without a launcher the devices are threads of one process, with one each is a process; a single device is both.
Json processes_report(const RunSetup& setup, const ContextPlan& plan, int wanted_threads) {
  Json list = Json::array({process_report(setup, plan, Placing::process_per_device, wanted_threads)});
  if (setup.mesh.device_count() > 1) {
    list.push_back(process_report(setup, plan, Placing::one_process, wanted_threads));
  }
  return list;
}

Json attention_report(const ContextPlan& plan) {
  return {{"context_parallelism", plan.context_parallelism()},
          {"strategy", reorder_strategy_name(plan.strategy())},
          {"padded_length", plan.padded_length()},
          {"area_per_device", plan.weighted_area()},
          {"max_over_mean", plan.imbalance()},
          {"max_over_mean_without_reordering", imbalance_without_reordering(plan)}};
}

Json plan_report(const RunSetup& setup, const ContextPlan& plan, const StepPrediction& prediction) {
  Json report;
  Json mesh;
  for (std::size_t i = 0; i < kConfiguredAxes.size(); ++i) {
    mesh[std::string(configured_axis_name(i))] = setup.mesh.size(kConfiguredAxes[i]);
  }
  report["devices"] = setup.mesh.device_count();
  report["mesh"] = mesh;
  report["parameters"] = parameter_count(model_layout(setup.shape));
  report["global_batch_size"] = setup.batch.global;
  report["tokens_per_step"] = setup.batch.global * setup.sequence_length;
  report["memory_per_device"] = memory_report(prediction);
  report["processes"] = Json::array();
  report["attention"] = attention_report(plan);
  report["collectives_per_device"] = collective_report(prediction.collectives);
  report["flops_per_device"] = prediction.flops_by_op;
  report["maxtext_tflops_per_device"] =
      step_flops(setup.shape, setup.batch.per_device, setup.sequence_length, setup.micro_batches).total() / 1e12;
  return report;
}

std::string devices_in_words(int devices) { return devices == 1 ? "one device" : fmt::format("{} devices", devices); }

void print_report(const Json& report) {
  fmt::print("devices {}: ", report["devices"].get<int>());
  for (const auto& [axis, size] : report["mesh"].items()) fmt::print("{} {}  ", axis, size.get<int>());
  fmt::print("\nparameters {}  global_batch_size {}  tokens per step {}\n", report["parameters"].get<std::int64_t>(),
             report["global_batch_size"].get<std::int64_t>(), report["tokens_per_step"].get<std::int64_t>());
  const Json& memory = report["memory_per_device"];
  fmt::print("\nmemory per device at its peak: {}\n", gib(memory["peak_bytes"]));
  for (const auto& [kind, bytes] : memory["peak_by_kind"].items()) fmt::print("  {:<22} {}\n", kind, gib(bytes));
  for (const Json& process : report["processes"]) {
    fmt::print("resident memory of a process with {}: {} (per device {} in tensors, {} of scratch)\n",
               devices_in_words(process["devices_per_process"]), gib(process["resident_bytes_per_process"]),
               gib(process["tensor_bytes_per_device"]), gib(process["scratch_bytes_per_device"]));
  }
  const Json& attention = report["attention"];
  fmt::print("\nattention work over {} context devices, {}: max/mean {:.4f} (without reordering {:.4f})\n",
             attention["context_parallelism"].get<int>(), attention["strategy"].get<std::string>(),
             attention["max_over_mean"].get<double>(), attention["max_over_mean_without_reordering"].get<double>());
  fmt::print("\ncollectives per device and step\n");
  print_collectives(report["collectives_per_device"]);
  fmt::print("\nTFLOP per device and step, recomputation included\n");
  for (const auto& [op, flops] : report["flops_per_device"].items()) {
    fmt::print("  {:<24} {:.4f}\n", op, flops.get<double>() / 1e12);
  }
  fmt::print("  {:<24} {:.4f}\n", "by MaxText's formula", report["maxtext_tflops_per_device"].get<double>());
}

}  // namespace

int plan_command(const Arguments& arguments) {
  CommandLine command_line(
      "maxtext plan",
      "Predict memory, attention work, communication and FLOPs of a training step, without running it.");
  Arguments rest;
  bool first_batch = false;
  std::string json_file;
  command_line.config_option(rest);
  command_line.flag({"--first-batch", &first_batch,
                     "Take document lengths from the first batch of the data, instead of one document per row"});
  command_line.option("--json", json_file, "Write the report to this file, too; - for standard output instead");
  if (!command_line.parse(arguments)) return 0;
  ConfigRequest request = config_request(rest);
  request.check_files = first_batch;
  request.saves_run = false;
  const Config config = load_config(request);
  note_ignored_keys(config);
  const RunSetup setup = run_setup(config, std::nullopt);
  if (setup.batch.global > kMostRows || setup.mesh.device_count() > kMostDevices) {
    fail_config("{} rows per step and {} devices: plan takes at most {} rows and {} devices", setup.batch.global,
                setup.mesh.device_count(), kMostRows, kMostDevices);
  }
  const DatasetOptions data = dataset_options(config, setup.shape.vocab_size);
  JsonFile file(json_file, [&] {
    InputFiles inputs = input_files(request.file, config);
    if (first_batch) std::ranges::move(source_files(data, Split::train), std::back_inserter(inputs));
    return inputs;
  });
  const ContextPlan plan = first_batch ? first_batch_plan(data, setup) : one_document_plan(setup);
  const EngineChoice choice = engine_choice(config);
  const bool native = choice.engine == EngineKind::native;
  const StepPrediction prediction = predict_step(setup, plan, !native);
  Json report = plan_report(setup, plan, prediction);
  // Of the cpu engine only: elsewhere, tensors are in the memory of devices.
  if (native) {
    report["processes"] = processes_report(setup, plan, static_cast<int>(config.integer("threads_per_device")));
  }
  if (!file.is_standard_output()) print_report(report);
  if (choice.topology != nullptr) {
    std::cout << std::flush;
    report["compiled"] = compile_report(choice, setup, plan, prediction);
    if (!file.is_standard_output()) print_compile_report(report["compiled"]);
  }
  file.write(report);
  return choice.topology == nullptr || report["compiled"]["fits"].get<bool>() ? 0 : 1;
}

}  // namespace maxtext
