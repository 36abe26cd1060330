#include "train/device_trainer.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/seconds_since.h"
#include "train/device_state.h"
#include "train/memory_use.h"
#include "train/non_finite.h"
#include "train/step_flops.h"

namespace maxtext {
namespace {

using Clock = std::chrono::steady_clock;

constexpr AxisSet kAllAxes = Axis::data | Axis::fsdp | Axis::context | kTensorAxes;

std::vector<std::string> parameter_names(const ModelLayout& layout) {
  std::vector<std::string> names;
  for (const ParameterGroup& group : layout.groups) {
    for (const ParameterInfo& parameter : group.parameters) names.push_back("gradient of " + parameter.name);
  }
  return names;
}

}  // namespace

DeviceTrainer::DeviceTrainer(TrainProcess& process, Engine& engine)
    : process_(process),
      setup_(process.setup()),
      engine_(engine),
      parameters_(engine, model_layout(setup_.shape, setup_.mesh, engine.device()), DType::float32,
                  setup_.decoder.dtype),
      optimizer_(parameters_, setup_.optimizer),
      decoder_(engine, setup_.shape, setup_.attention.of_layer, setup_.decoder),
      train_step_(decoder_, parameters_, optimizer_),
      flops_per_step_(
          step_flops(setup_.shape, setup_.batch.per_device, setup_.sequence_length, setup_.micro_batches).total()),
      tokens_per_step_(setup_.batch.per_device * static_cast<double>(setup_.sequence_length * setup_.micro_batches)) {}

DeviceTrainer::~DeviceTrainer() { process_.leave(); }

void DeviceTrainer::load() {
  const StartPoint& start = process_.start();
  if (start.checkpoint != nullptr) {
    try {
      restore_state(*start.checkpoint, parameters_, optimizer_, process_.config().text("opt_type"));
    } catch (const DamagedCheckpoint& error) {
      throw_with_hint(start, setup_, start.checkpoint->directory(), error);
    }
    if (leads()) {
      process_.report(
          fmt::format("resumed from {} after {} steps", start.checkpoint->directory().string(), start.completed_steps));
    }
  } else if (start.weights != nullptr) {
    load_weights(*start.weights, parameters_);
  } else {
    parameters_.initialise(static_cast<std::uint64_t>(process_.config().integer("init_weights_seed")));
  }
  process_.loaded();
}

void DeviceTrainer::maximum_over_devices(std::span<float> values) {
  const TensorSpec spec{{static_cast<std::int64_t>(values.size())}, DType::float32};
  const Tensor most =
      engine_.apply_one(AllReduce{.axes = kAllAxes, .group_size = setup_.mesh.device_count(), .reduce = ReduceOp::max},
                        {engine_.input(spec, std::as_bytes(values))});
  engine_.read(most, std::as_writable_bytes(values));
}

bool DeviceTrainer::agree(bool mine) {
  float failed = mine ? 0.0F : 1.0F;
  maximum_over_devices({&failed, 1});
  return failed == 0;
}

TrainSummary DeviceTrainer::run() {
  load();
  std::int64_t completed = process_.start().completed_steps;
  TrainSummary summary;
  if (process_.has_evaluation() && completed < setup_.steps) {
    evaluate(fmt::format("Completed eval before train step {}", completed), completed);
  }
  while (completed < setup_.steps && !stop_) {
    if (!step(completed)) {
      summary.end = TrainSummary::End::end_of_data;
      break;
    }
    ++completed;
    // Saving first: the writer works beside the evaluation, which changes nothing.
    const std::int64_t period = process_.config().integer("checkpoint_period");
    if (process_.config().flag("enable_checkpointing") && completed % period == 0) save(completed);
    evaluate_if_due(completed);
  }
  if (summary.end == TrainSummary::End::end_of_data && completed > process_.start().completed_steps &&
      process_.has_evaluation() && evaluated_at_ != completed) {
    evaluate("", completed);
  }
  // A signal during the evaluation at the end of the data ends nothing early.
  if (stop_ && summary.end == TrainSummary::End::all_steps && completed < setup_.steps) {
    summary.end = TrainSummary::End::signal;
  }
  save_at_end(completed);
  if (stop_) agree(true);  // all have saved before the first one's failure ends the others
  if (data_error_ != nullptr) fail_for_data(completed);
  summary.completed_steps = completed;
  summary.last_loss = last_loss_;
  report_end(summary);
  return summary;
}

void DeviceTrainer::save_at_end(std::int64_t completed) {
  const Config& config = process_.config();
  const auto agreeing = [this](bool mine) { return agree(mine); };
  process_.wait_for_save(agreeing);
  const bool wanted = config.flag("enable_checkpointing") && (config.flag("save_checkpoint_on_completion") || stop_);
  const bool missing = saved_at_ != completed || !process_.save_error().empty();
  if (!wanted || completed == process_.start().completed_steps || !missing) return;
  save(completed);
  process_.wait_for_save(agreeing);
  if (!process_.save_error().empty()) {
    fail("the last checkpoint, of step {}, could not be saved: {}", completed, process_.save_error());
  }
}

void DeviceTrainer::fail_for_data(std::int64_t completed) const {
  try {
    std::rethrow_exception(data_error_);
  } catch (const Error& error) {
    fail("{}; stopped after {} steps, {}", error.what(), completed,
         process_.config().flag("enable_checkpointing") ? "which are saved"
                                                        : "which are not saved, as enable_checkpointing=false");
  }
}

void DeviceTrainer::report_end(const TrainSummary& summary) {
  if (engine_.device() != 0) return;
  const bool nothing_done = summary.completed_steps == process_.start().completed_steps;
  if (summary.end == TrainSummary::End::all_steps && nothing_done) {
    process_.report(fmt::format("already at step {} of {}, nothing to do", summary.completed_steps, setup_.steps));
  } else if (summary.end == TrainSummary::End::end_of_data) {
    if (summary.completed_steps == 0) {
      fail("the training data has fewer rows than the {} of one step", setup_.batch.global);
    }
    process_.report(fmt::format("end of data after {} steps; num_epoch allows more passes", summary.completed_steps));
  } else if (summary.end == TrainSummary::End::signal) {
    process_.report(fmt::format(
        "stopped by {} after {} steps; {}",
        process_.stop_signal().requested() ? process_.stop_signal().name() : "another process", summary.completed_steps,
        !process_.config().flag("enable_checkpointing") ? "nothing was saved, as enable_checkpointing=false"
                                                        : "the same command resumes"));
  }
}

void DeviceTrainer::check_same_batch(const PlannedBatch& planned) {
  // In pieces that float32 holds exactly; the maxima of each piece and of its negative meet where all are equal.
  const std::string_view ids(reinterpret_cast<const char*>(planned.rows.inputs.data()),
                             planned.rows.inputs.size() * sizeof(std::int32_t));
  const std::uint64_t hash = planned.plan.hash() ^ content_hash(ids);
  std::array<float, 8> pieces{};
  for (std::size_t i = 0; i < 4; ++i) {
    pieces[i] = static_cast<float>(hash >> (16 * i) & 0xffffU);
    pieces[i + 4] = -pieces[i];
  }
  maximum_over_devices(pieces);
  for (std::size_t i = 0; i < 4; ++i) {
    if (pieces[i] != -pieces[i + 4]) {
      fail("processes disagree about the first batch: their data or configuration differ");
    }
  }
}

bool DeviceTrainer::next_batch_fails(std::int64_t index) {
  if (index + 1 < setup_.steps) data_error_ = process_.training_error(index + 1);
  return data_error_ != nullptr;
}

bool DeviceTrainer::step(std::int64_t index) {
  const Clock::time_point begin = Clock::now();
  const std::shared_ptr<const PlannedBatch> planned = process_.training_batch(index);
  if (planned == nullptr) return false;
  if (index == process_.start().completed_steps) check_same_batch(*planned);
  if (planned->total_weights == 0 && engine_.device() == 0 && !std::exchange(noted_no_targets_, true)) {
    process_.report(fmt::format(
        "note: the batch of step {} has no targets (total_weights 0), from which nothing is learned{}", index,
        setup_.sequence_length == 1 ? "; rows of max_target_length=1 have none, as a token's target is the next" : ""));
  }
  const auto micro_batch = [&](int m) {
    const RowRange rows = device_rows(setup_.mesh, engine_.device(), planned->rows.rows, setup_.micro_batches, m);
    return make_device_batch(engine_, planned->plan, planned->rows, rows);
  };
  const auto agreeing = [this](bool mine) { return agree(mine); };
  StepMetrics metrics;
  metrics.step = index;
  metrics.learning_rate = learning_rate_at(setup_.schedule, index);
  const StepOutput output = train_step_.run(
      index, metrics.learning_rate, setup_.micro_batches, micro_batch, planned->total_weights,
      [&] { return process_.stop_signal().requested() || next_batch_fails(index); },
      [&] { process_.wait_before_update(agreeing); });
  metrics.loss = output.loss;
  metrics.total_weights = static_cast<std::int64_t>(std::llround(planned->total_weights));
  metrics.grad_norm = output.gradient_norm;
  metrics.step_time_seconds = seconds_since(begin);
  metrics.peak_memory_bytes = peak_resident_bytes();
  set_rates(metrics, tokens_per_step_, flops_per_step_);
  check_finite(index, output);
  if (engine_.device() == 0) process_.report_step(metrics);
  process_.serve_save(agreeing);
  last_loss_ = output.loss;
  stop_ = output.flag;
  return true;
}

void DeviceTrainer::check_finite(std::int64_t index, const StepOutput& output) const {
  const bool nan = std::isnan(output.loss) || std::isnan(output.gradient_norm);
  const bool inf = std::isinf(output.loss) || std::isinf(output.gradient_norm);
  const Config& config = process_.config();
  if ((nan && config.flag("abort_on_nan_loss")) || (inf && config.flag("abort_on_inf_loss"))) {
    fail("{}",
         describe_non_finite(index, output.loss,
                             first_non_finite(output.gradient_sums_of_squares, parameter_names(parameters_.layout()))));
  }
}

void DeviceTrainer::evaluate_if_due(std::int64_t completed) {
  if (!process_.has_evaluation()) return;
  const std::int64_t interval = process_.config().integer("eval_interval");
  if (stop_ || (completed % interval != 0 && completed != setup_.steps)) return;
  evaluate("", completed);
}

void DeviceTrainer::evaluate(const std::string& when, std::int64_t after_step) {
  EvaluationSums sums;
  evaluated_at_ = after_step;
  for (std::int64_t i = 0;; ++i) {
    // A preempted job has seconds to save, and an evaluation may take minutes.
    if (!agree(!process_.stop_signal().requested())) {
      stop_ = true;
      ++evaluations_;
      return;
    }
    const std::shared_ptr<const PlannedBatch> planned = process_.evaluation_batch(evaluations_, i);
    if (planned == nullptr) {
      if (i == 0) fail("the held-out data holds no rows: check eval_files or eval_split_fraction");
      break;
    }
    const RowRange rows = device_rows(setup_.mesh, engine_.device(), planned->rows.rows, 1, 0);
    sums.nll += evaluate_batch(decoder_, parameters_, make_device_batch(engine_, planned->plan, planned->rows, rows));
    sums.weights += planned->total_weights;
  }
  ++evaluations_;
  if (engine_.device() != 0) return;
  const auto weights = static_cast<std::int64_t>(std::llround(sums.weights));
  std::string line = eval_line(after_step - 1, sums.loss(), weights);
  if (!when.empty()) line = when + line.substr(line.find(','));
  process_.report(line);
}

void DeviceTrainer::save(std::int64_t completed) {
  const auto agreeing = [this](bool mine) { return agree(mine); };
  process_.wait_for_save(agreeing);
  process_.contribute(device_state(parameters_, optimizer_));
  agree(true);  // all have contributed
  if (leads()) process_.start_save(completed);
  agree(true);  // the save has begun: from here wait_before_update protects the memory
  saved_at_ = completed;
  if (!process_.config().flag("async_checkpointing")) process_.wait_for_save(agreeing);
}

}  // namespace maxtext
