#include "train/signals.h"

#include <atomic>
#include <stdexcept>

namespace maxtext {
namespace {

// A signal handler can reach nothing but statics. Both are only touched by StopSignal and its handler.
std::atomic<int> received{0};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only use lock-free atomics");

}  // namespace

extern "C" {
static void note_signal(int number) {
  received.store(number, std::memory_order_relaxed);
  // Whoever asks twice does not want to wait; signal() is async-signal-safe. SIGUSR1 and SIGHUP come twice by
  // themselves, through a launcher and from the batch system or the terminal.
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}
}

StopSignal::StopSignal() {
  if (installed.exchange(true)) throw std::logic_error("StopSignal: another one exists");
  received.store(0);
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;  // writes of checkpoints and metrics in progress must not fail with EINTR
  sigemptyset(&action.sa_mask);
  for (const int number : kSignals) sigaddset(&action.sa_mask, number);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &previous_[i]);
    // Under nohup the run is meant to go on.
    if (kSignals[i] == SIGHUP && previous_[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &previous_[i], nullptr);
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  installed.store(false);
}

int StopSignal::number() const { return received.load(std::memory_order_relaxed); }

const char* StopSignal::name() const {
  switch (number()) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "";
  }
}

}  // namespace maxtext
