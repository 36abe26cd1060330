#include "train/train_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/error.h"
#include "model/hf_config.h"

namespace maxtext {
namespace {

bool reports(const Transport& transport) { return transport.local_devices().front() == 0; }

/// Between two rounds of agreement while nothing else is to do.
constexpr std::chrono::milliseconds kBetweenRounds{2};

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

/// The held-out split; what is wrong with it says so.
std::shared_ptr<Dataset> open_held_out(const DatasetOptions& options) {
  try {
    return open_dataset(options, Split::eval);
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {
    fail("held-out data (eval_files or eval_split_fraction): {}", error.what());
  }
}

}  // namespace

TrainProcess::TrainProcess(const Config& config, const RunSetup& setup, std::unique_ptr<Transport> transport,
                           std::shared_ptr<FileLayer> files, const std::function<std::vector<std::string>()>& opening)
    : config_(config),
      setup_(setup),
      transport_(std::move(transport)),
      files_(std::make_shared<StoppableFileLayer>(std::move(files))),
      metrics_file_(reports(*transport_) && !config.text("metrics_file").empty()
                        ? std::make_unique<MetricsFile>(config.text("metrics_file"))
                        : nullptr),
      lock_(config.flag("enable_checkpointing") && reports(*transport_) ? std::make_unique<RunLock>(setup.run_directory)
                                                                        : nullptr),
      start_(find_start(config, setup)) {
  if (reports(*transport_)) {
    for (const std::string& line : opening()) report(line);
  }
  for (const std::string& note : start_.notes) report(note);
  if (metrics_file_ != nullptr) {
    metrics_file_->begin(start_.resumes_own_run ? std::optional(start_.completed_steps) : std::nullopt);
  }
  const DatasetOptions data = dataset_options(config, setup.shape.vocab_size);
  std::shared_ptr<Dataset> training_data = open_dataset(data, Split::train);
  training_data_ = training_data->fingerprint();
  if (const auto note = note_other_data(start_, training_data_)) report(*note);
  if (const auto note = note_early_end(training_data->rows_about())) report(*note);
  training_ = std::make_unique<BatchProvider>(std::move(training_data),
                                              start_.cursor - start_.completed_steps * setup.batch.global,
                                              setup.batch.global, setup.plan);
  if (config.integer("eval_interval") > 0) evaluation_data_ = open_held_out(data);
  if (config.flag("enable_checkpointing")) {
    checkpointer_ =
        std::make_unique<AsyncCheckpointer>(save_options(), [this](const SaveResult& result) { save_ended(result); });
  }
  stop_signal_.emplace();
  if (!reports(*transport_)) return;
  progress_ = std::make_unique<ProgressBar>(start_.completed_steps, setup.steps);
}

std::optional<std::string> TrainProcess::note_early_end(std::optional<std::int64_t> rows) const {
  if (!rows) return std::nullopt;
  const std::int64_t steps = start_.completed_steps + (*rows - start_.cursor) / setup_.batch.global;
  if (steps >= setup_.steps) return std::nullopt;
  return fmt::format("note: the data has about {} rows, enough for {} of the {} steps; num_epoch allows more passes",
                     *rows, std::max<std::int64_t>(steps, 0), setup_.steps);
}

void TrainProcess::loaded() {
  const std::lock_guard lock(mutex_);
  if (++devices_loaded_ < transport_->local_devices().size()) return;
  start_.checkpoint.reset();
  start_.weights.reset();
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
  // A log that takes no more, as that of a terminal which was closed (SIGHUP), ends no run.
  const std::string text = line + '\n';
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void TrainProcess::report_step(const StepMetrics& metrics) {
  if (!reports(*transport_)) return;
  report(step_line(metrics));
  if (metrics_file_ != nullptr) {
    try {
      metrics_file_->append(metrics);
      metrics_failed_ = false;
    } catch (const Error& error) {
      warn_about_metrics(error.what());
    }
  }
  const std::lock_guard lock(mutex_);
  if (progress_ != nullptr) progress_->update(metrics.step + 1, fmt::format("loss {:.3f}", metrics.loss));
}

void TrainProcess::warn_about_metrics(const std::string& reason) {
  if (!std::exchange(metrics_failed_, true)) report(fmt::format("{}; training goes on", reason));
}

CheckpointInfo TrainProcess::checkpoint_info(std::int64_t completed_steps) const {
  CheckpointInfo info;
  info.step = completed_steps;
  info.cursor[kNextRow] = start_.cursor + (completed_steps - start_.completed_steps) * setup_.batch.global;
  info.trainer["init_weights_seed"] = config_.integer("init_weights_seed");
  info.trainer[kTrainingData] = training_data_;
  info.config = config_snapshot(config_);
  info.hf_config = hf_config_of(setup_.shape);
  return info;
}

SaveOptions TrainProcess::save_options() {
  SaveOptions options;
  options.files = files_;
  options.run_directory = setup_.run_directory;
  options.keep = static_cast<int>(std::max<std::int64_t>(0, config_.integer("max_num_checkpoints_to_keep")));
  options.device_count = setup_.mesh.device_count();
  const auto local = static_cast<int>(transport_->local_devices().size());
  options.process_count = options.device_count / local;
  options.process_index = transport_->local_devices().front() / local;
  if (options.process_count > 1) {
    options.all_succeeded = [this](bool succeeded) { return agreement_.propose(succeeded); };
  }
  return options;
}

void TrainProcess::report_save(const SaveResult& result) {
  if (!result.ok()) {
    const std::string line =
        fmt::format("checkpoint of step {} failed, {}: {}", result.step,
                    files_->stopped() ? "the earlier one stays" : "training goes on", result.error);
    if (reports(*transport_)) return report(line);
    // The reason may be known to this process only.
    fmt::print(stderr, "device {}: {}\n", transport_->local_devices().front(), line);
    return;
  }
  report(fmt::format("saved checkpoint of step {} to {} in {:.1f} s", result.step, result.directory.string(),
                     result.seconds));
  if (!result.warning.empty()) report(result.warning);
}

void TrainProcess::save_ended(const SaveResult& result) {
  report_save(result);
  const std::lock_guard lock(mutex_);
  save_error_ = result.error;
  saving_ = false;
  save_changed_.notify_all();
}

void TrainProcess::contribute(DeviceState state) {
  const std::lock_guard lock(mutex_);
  contributed_.push_back(std::move(state));
}

void TrainProcess::start_save(std::int64_t completed_steps) {
  std::vector<DeviceState> states;
  {
    const std::lock_guard lock(mutex_);
    states = std::exchange(contributed_, {});
    saving_ = true;
  }
  if (metrics_file_ != nullptr) {
    try {
      metrics_file_->sync();
    } catch (const Error& error) {
      warn_about_metrics(error.what());
    }
  }
  if (setup_.mesh.device_count() > static_cast<int>(transport_->local_devices().size())) agreement_.begin();
  checkpointer_->save(checkpoint_info(completed_steps), std::move(states));
  const std::lock_guard lock(mutex_);
  if (giving_up_) files_->stop();  // a device failed on its way here
}

void TrainProcess::wait_before_update(const Agree& agree) {
  if (checkpointer_ == nullptr) return;
  if (!agreement_.active()) return checkpointer_->wait_before_update();
  // The first phase of the save needs this thread, and all processes have to leave this loop together.
  for (;;) {
    agreement_.serve(agree);
    if (agree(!checkpointer_->data_in_use())) return;
    std::this_thread::sleep_for(kBetweenRounds);
  }
}

void TrainProcess::serve_save(const Agree& agree) { agreement_.serve(agree); }

void TrainProcess::wait_for_save(const Agree& agree) {
  while (agreement_.active()) {
    agreement_.serve(agree);
    std::this_thread::sleep_for(kBetweenRounds);
  }
  std::unique_lock lock(mutex_);
  save_changed_.wait(lock, [this] { return !saving_; });
}

void TrainProcess::give_up(int device, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(giving_up_, true) || !saving_) return;
  }
  if (checkpointer_->data_in_use()) files_->stop();
  fmt::print(stderr, "device {} failed: {}; the run ends with the save under way\n", device, reason);
}

void TrainProcess::leave() noexcept {
  agreement_.cancel();
  if (checkpointer_ != nullptr) checkpointer_->wait_before_update();
}

}  // namespace maxtext
