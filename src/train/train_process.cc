#include "train/train_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "model/hf_config.h"

namespace maxtext {
namespace {

constexpr const char* kNextRow = "next_row";

bool reports(const Transport& transport) { return transport.local_devices().front() == 0; }

std::int64_t evaluation_batches(const Config& config) { return config.integer("eval_steps"); }

/// An empty object when Hugging Face has no family for the shape, as for windows on some layers of a Llama: that is no
/// reason to lose a checkpoint, and `maxtext convert` says what is missing.
nlohmann::json hf_config_of(const ModelShape& shape) {
  try {
    return nlohmann::json::parse(write_hf_config(shape));
  } catch (const ConfigError&) {
    return nlohmann::json::object();
  }
}

}  // namespace

StartPoint find_start(const Config& config, const RunSetup& setup) {
  StartPoint start;
  std::filesystem::path directory;
  if (config.flag("enable_checkpointing")) directory = latest_checkpoint(setup.run_directory);
  if (directory.empty()) directory = config.text("load_full_state_path");
  if (!directory.empty()) {
    if (directory.filename() == "items") directory = directory.parent_path();
    start.checkpoint = std::make_unique<CheckpointReader>(directory);
    const CheckpointInfo& info = start.checkpoint->info();
    start.completed_steps = info.step;
    start.cursor = info.cursor.value(kNextRow, std::int64_t{0});
  } else if (!config.text("load_parameters_path").empty()) {
    start.weights = open_weights(config.text("load_parameters_path"));
  }
  return start;
}

TrainProcess::TrainProcess(const Config& config, const RunSetup& setup, std::unique_ptr<Transport> transport)
    : config_(config), setup_(setup), transport_(std::move(transport)), start_(find_start(config, setup)) {
  const DatasetOptions data = dataset_options(config, setup.shape.vocab_size);
  training_ = std::make_unique<BatchProvider>(open_dataset(data, Split::train),
                                              start_.cursor - start_.completed_steps * setup.batch.global,
                                              setup.batch.global, setup.plan);
  if (config.integer("eval_interval") > 0) {
    if (!has_eval_split(data)) {
      fail_config("eval_interval={} needs held-out data: set eval_files or eval_split_fraction",
                  config.integer("eval_interval"));
    }
    evaluation_data_ = open_dataset(data, Split::eval);
  }
  if (config.flag("enable_checkpointing")) {
    checkpointer_ =
        std::make_unique<AsyncCheckpointer>(save_options(), [this](const SaveResult& result) { report_save(result); });
  }
  if (!reports(*transport_)) return;
  if (!config.text("metrics_file").empty()) {
    metrics_file_ = std::make_unique<MetricsFile>(config.text("metrics_file"), start_.completed_steps);
  }
  progress_ = std::make_unique<ProgressBar>(start_.completed_steps, setup.steps);
}

std::shared_ptr<const PlannedBatch> TrainProcess::training_batch(std::int64_t step) { return training_->get(step); }

std::shared_ptr<const PlannedBatch> TrainProcess::evaluation_batch(std::int64_t evaluation, std::int64_t index) {
  BatchProvider* provider = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (evaluation_number_ != evaluation) {
      evaluation_ = std::make_unique<BatchProvider>(evaluation_data_, 0, setup_.batch.micro, setup_.plan, true);
      evaluation_number_ = evaluation;
    }
    provider = evaluation_.get();
  }
  if (evaluation_batches(config_) > 0 && index >= evaluation_batches(config_)) return nullptr;
  return provider->get(index);
}

void TrainProcess::report(const std::string& line) {
  if (!reports(*transport_)) return;
  const std::lock_guard lock(mutex_);
  if (progress_ != nullptr) progress_->clear();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void TrainProcess::report_step(const StepMetrics& metrics) {
  if (!reports(*transport_)) return;
  report(step_line(metrics));
  if (metrics_file_ != nullptr) metrics_file_->append(metrics);
  if (progress_ != nullptr) progress_->update(metrics.step + 1, fmt::format("loss {:.3f}", metrics.loss));
}

CheckpointInfo TrainProcess::checkpoint_info(std::int64_t completed_steps) const {
  CheckpointInfo info;
  info.step = completed_steps;
  info.cursor[kNextRow] = start_.cursor + (completed_steps - start_.completed_steps) * setup_.batch.global;
  info.trainer["init_weights_seed"] = config_.integer("init_weights_seed");
  info.config = config_snapshot(config_);
  info.hf_config = hf_config_of(setup_.shape);
  return info;
}

SaveOptions TrainProcess::save_options() const {
  SaveOptions options;
  options.run_directory = setup_.run_directory;
  options.keep = static_cast<int>(std::max<std::int64_t>(0, config_.integer("max_num_checkpoints_to_keep")));
  options.device_count = setup_.mesh.device_count();
  const auto local = static_cast<int>(transport_->local_devices().size());
  options.process_count = options.device_count / local;
  options.process_index = transport_->local_devices().front() / local;
  return options;
}

void TrainProcess::report_save(const SaveResult& result) {
  last_save_ok_ = result.ok();
  if (!result.ok()) {
    report(fmt::format("checkpoint of step {} failed, training goes on: {}", result.step, result.error));
    return;
  }
  report(fmt::format("saved checkpoint of step {} to {} in {:.1f} s", result.step, result.directory.string(),
                     result.seconds));
  if (!result.warning.empty()) report(result.warning);
}

void TrainProcess::contribute(DeviceState state) {
  const std::lock_guard lock(mutex_);
  contributed_.push_back(std::move(state));
}

void TrainProcess::save(std::int64_t completed_steps, const std::function<bool(bool)>& all_succeeded) {
  std::vector<DeviceState> states;
  {
    const std::lock_guard lock(mutex_);
    states = std::exchange(contributed_, {});
  }
  if (metrics_file_ != nullptr) metrics_file_->sync();
  SaveOptions options = save_options();
  if (options.process_count == 1) {
    checkpointer_->save(checkpoint_info(completed_steps), std::move(states));
    if (!config_.flag("async_checkpointing")) checkpointer_->wait();
    return;
  }
  options.all_succeeded = all_succeeded;
  SaveResult result;
  result.step = completed_steps;
  try {
    result = save_checkpoint(options, checkpoint_info(completed_steps), states);
  } catch (const Error& error) {
    result.error = error.what();
  }
  report_save(result);
}

void TrainProcess::wait_before_update() {
  if (checkpointer_ != nullptr) checkpointer_->wait_before_update();
}

bool TrainProcess::finish_saving() {
  if (checkpointer_ != nullptr) checkpointer_->wait();
  return last_save_ok_;
}

}  // namespace maxtext
