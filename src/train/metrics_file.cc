#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "train/metrics.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> step_of(std::string_view line) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  const auto step = parsed.find("step");
  if (step == parsed.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

struct KeptLines {
  std::string text;
  bool changed = false;
  std::int64_t lines = 0;  // all of them, kept or not
};

KeptLines lines_before(const fs::path& path, std::int64_t first_step) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("{}: cannot read the metrics file: {}", path.string(), std::strerror(errno));
  KeptLines kept;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    ++kept.lines;
    const bool ended_by_newline = !file.eof();
    const std::optional<std::int64_t> step = step_of(line);
    if (!step && file.peek() != std::ifstream::traits_type::eof()) {
      fail(
          "{}: line {} is not a line of metrics (a JSON object with an integer \"step\"); set metrics_file to another "
          "path",
          path.string(), number);
    }
    if (step && *step < first_step) {
      kept.text += line;
      kept.text += '\n';
      kept.changed |= !ended_by_newline;
    } else {
      kept.changed = true;
    }
  }
  return kept;
}

/// Renames the file of another run to a name that is free.
void set_aside(const fs::path& path, std::int64_t lines) {
  fs::path aside;
  for (int number = 1; number == 1 || fs::exists(fs::symlink_status(aside)); ++number) {
    aside = fmt::format("{}.old-{}", path.string(), number);
  }
  std::error_code error;
  fs::rename(path, aside, error);
  if (error)
    fail("{}: cannot rename an earlier run's metrics to {}: {}", path.string(), aside.string(), error.message());
  fmt::print("metrics_file {} held {} lines of an earlier run; they are now in {}\n", path.string(), lines,
             aside.string());
  std::fflush(stdout);
}

}  // namespace

MetricsFile::MetricsFile(const fs::path& path) : path_(path) {
  std::error_code ignored;  // opening reports what matters
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  open();
}

void MetricsFile::open() {
  if (file_ >= 0) close(std::exchange(file_, -1));
  std::error_code ignored;
  if (fs::is_fifo(path_, ignored)) {  // opening it would wait for a reader
    fail_config("metrics_file={}: is a pipe, and lines of earlier steps have to be read back", path_.string());
  }
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) fail_config("metrics_file={}: cannot be written: {}", path_.string(), std::strerror(errno));
}

void MetricsFile::lock() {
  for (;;) {
    struct stat opened {};
    struct stat named {};
    if (fstat(file_, &opened) != 0) fail("{}: cannot be examined: {}", path_.string(), std::strerror(errno));
    if (!S_ISREG(opened.st_mode)) return;
    // Some network file systems have no locks; only a lock that somebody holds is a reason to stop.
    if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      fail("metrics_file={}: another run is writing to it; choose another metrics_file", path_.string());
    }
    const bool same =
        stat(path_.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    if (same) return;
    open();
  }
}

void MetricsFile::begin(std::optional<std::int64_t> resumed_step) {
  lock();
  const std::int64_t first_step = resumed_step.value_or(0);
  const KeptLines kept = lines_before(path_, first_step);
  if (kept.lines == 0) return;
  if (first_step == 0) {
    set_aside(path_, kept.lines);
  } else if (kept.changed) {
    write_file_atomically(path_, kept.text);
  } else {
    return;
  }
  open();
  lock();
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) close(file_);
}

void MetricsFile::append(const StepMetrics& metrics) {
  struct stat before {};
  if (fstat(file_, &before) != 0) fail("{}: cannot append metrics: {}", path_.string(), std::strerror(errno));
  const std::string line = metrics_json(metrics) + '\n';
  const ssize_t written = write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;

  const std::string reason = written < 0 ? std::strerror(errno) : "the disk is full";
  const bool restored = written <= 0 || ftruncate(file_, before.st_size) == 0;
  fail("{}: cannot append the metrics of step {}: {}{}", path_.string(), metrics.step, reason,
       restored ? "" : "; its last line is incomplete");
}

void MetricsFile::sync() {
  if (fsync(file_) != 0) fail("{}: cannot sync the metrics file: {}", path_.string(), std::strerror(errno));
}

}  // namespace maxtext
