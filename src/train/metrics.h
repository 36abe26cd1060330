// What a run reports: the line per step, the line per evaluation, and the machine-readable metrics_file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace maxtext {

struct StepMetrics {
  std::int64_t step = 0;
  /// Mean cross-entropy (natural logarithm) over the weighted targets of the step.
  double loss = 0;
  /// Targets that counted, over all devices and micro-batches.
  std::int64_t total_weights = 0;
  /// Global norm of the gradient before clipping.
  double grad_norm = 0;
  /// The rate used in this step.
  double learning_rate = 0;
  double step_time_seconds = 0;
  double tokens_per_second_per_device = 0;
  double tflops_per_second_per_device = 0;
  /// Largest resident set of the process so far (train/memory_use.h).
  std::int64_t peak_memory_bytes = 0;
};

/// Fills the two rates from work and time: work / step_time_seconds, and 0 when the time is not positive, so that no
/// step reports an impossible number.
void set_rates(StepMetrics& metrics, double tokens_per_device, double flops_per_device);

/// "completed step: 3, seconds: 0.812, TFLOP/s/device: 0.101, Tokens/s/device: 2521.000, total_weights: 4093,
/// loss: 5.120, grad_norm: 1.203, learning_rate: 3.000e-04": MaxText's line, with the norm and the rate after the loss.
std::string step_line(const StepMetrics& metrics);

/// "Completed eval after train step 3, loss=5.120, perplexity=167.335, total_weights=8190", perplexity = exp(loss).
std::string eval_line(std::int64_t step, double loss, std::int64_t total_weights);

/// One JSON object, without the newline, with the fields of StepMetrics in their order and under their names. Numbers
/// read back as the same doubles; a NaN or infinity, which JSON cannot hold, is null.
std::string metrics_json(const StepMetrics& metrics);

/// The metrics_file: one metrics_json per line, in which every step stands once, also after resumes.
class MetricsFile {
 public:
  /// Opens `path`, created with its folder when it does not exist, and changes nothing in it. Throws ConfigError when
  /// that cannot be.
  explicit MetricsFile(const std::filesystem::path& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Takes the file for this run, until its end, and leaves in it what the run goes on from; before the first append.
  ///
  /// A run that resumes from its own run directory at `resumed_step`: lines of that step and later ones, which an
  /// earlier attempt wrote after the checkpoint, are dropped, as is a last line cut short by a crash; the file is
  /// replaced atomically. Any other run, one that branches off another's checkpoint too (no `resumed_step`, or step 0):
  /// lines that are there belong to another run, and the file is renamed to `path`.old-1 (or the first number that is
  /// free), which one line on stdout says: metrics are never lost to a forgotten metrics_file.
  ///
  /// Throws Error when another process has the file (flock; what is no regular file is not locked), and, naming path
  /// and line number, when a line before the last one is not a JSON object with an integer `step`: that file is not
  /// ours to rewrite.
  void begin(std::optional<std::int64_t> resumed_step);

  /// Appends one line with one write, so that a killed process leaves it whole or not at all. When the disk is full the
  /// part that was written is taken back and Error is thrown; the file stays valid and later appends may succeed.
  void append(const StepMetrics& metrics);

  /// Syncs to disk. Call it before a checkpoint is made the newest one, and no crash loses lines that it builds on.
  void sync();

 private:
  void open();
  /// Locks the file that `path_` names, opening it again when it was renamed meanwhile.
  void lock();

  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace maxtext
