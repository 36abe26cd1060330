#include "train/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>

namespace maxtext {
namespace {

constexpr int kBarColumns = 24;
constexpr int kDefaultWidth = 80;
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::chrono::milliseconds kRedrawInterval{100};

int terminal_width(int file) {
  winsize size{};
  const bool known = ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultWidth;
}

std::string bar(double fraction) {
  const int filled = static_cast<int>(fraction * kBarColumns);
  std::string text(static_cast<std::size_t>(filled), '#');
  if (filled < kBarColumns) text += '>';
  text.resize(kBarColumns, ' ');
  return text;
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

std::string progress_text(std::int64_t done, std::int64_t total, double seconds_per_step, std::string_view note,
                          int width) {
  const double fraction =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1.0;
  std::string text = fmt::format("[{}] {}% {}/{}", bar(fraction), static_cast<int>(fraction * 100), done, total);
  if (seconds_per_step > 0 && done < total) {
    text += fmt::format(", {} left", duration(seconds_per_step * static_cast<double>(total - done)));
  }
  if (!note.empty()) text += fmt::format(", {}", note);
  // The last column stays free: a full line would wrap and could not be erased.
  text.resize(std::min(text.size(), static_cast<std::size_t>(std::max(width - 1, 0))));
  return text;
}

ProgressBar::ProgressBar(std::int64_t first_step, std::int64_t total_steps, int file)
    : first_step_(first_step), total_(total_steps), file_(file), terminal_(isatty(file) == 1) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(std::int64_t done, std::string_view note) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  const double seconds = seconds_per_step(done, now);
  if (drawn_ && done < total_ && now - last_drawn_ < kRedrawInterval) return;
  write_text(std::string(kEraseLine) + progress_text(done, total_, seconds, note, terminal_width(file_)));
  drawn_ = true;
  last_drawn_ = now;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  write_text(kEraseLine);
  drawn_ = false;
}

double ProgressBar::seconds_per_step(std::int64_t done, Clock::time_point now) {
  if (timed_from_step_ < 0) {
    if (done <= first_step_) return 0;
    timed_from_step_ = done;
    timed_from_ = now;
    return 0;
  }
  if (done <= timed_from_step_) return 0;
  return std::chrono::duration<double>(now - timed_from_).count() / static_cast<double>(done - timed_from_step_);
}

void ProgressBar::write_text(std::string_view text) const {
  // A bar that cannot be drawn must not stop the training.
  [[maybe_unused]] const ssize_t written = write(file_, text.data(), text.size());
}

}  // namespace maxtext
