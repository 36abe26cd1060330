// A progress bar on the terminal. Silent when the output is a file or a pipe, so that logs hold whole lines only.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace maxtext {

/// "[#########>           ] 45% 90/200, 0:01:12 left, loss 3.142": done and total are steps, cut to `width` columns.
/// `seconds_per_step` <= 0 leaves the remaining time out.
std::string progress_text(std::int64_t done, std::int64_t total, double seconds_per_step, std::string_view note,
                          int width);

class ProgressBar {
 public:
  /// Steps first_step .. total_steps-1 will be done. Draws on `file` only if it is a terminal.
  ProgressBar(std::int64_t first_step, std::int64_t total_steps, int file = STDERR_FILENO);
  /// Erases the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` steps are completed in all; `note` follows, as "loss 3.142". Redraws at most ten times a second. The
  /// remaining time is the mean since the first completed step, which itself is not counted: it warms caches and pools
  /// up.
  void update(std::int64_t done, std::string_view note);

  /// Erases the bar, for a log line to be printed in its place; the next update draws it again.
  void clear();

  bool visible() const { return terminal_; }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_per_step(std::int64_t done, Clock::time_point now);
  void write_text(std::string_view text) const;

  std::int64_t first_step_;
  std::int64_t total_;
  int file_;
  bool terminal_;
  bool drawn_ = false;
  std::int64_t timed_from_step_ = -1;
  Clock::time_point timed_from_;
  Clock::time_point last_drawn_;
};

}  // namespace maxtext
