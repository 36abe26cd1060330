// A polite stop: SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask the loop to finish its step, save and leave. SIGUSR1 is the
// one that mpirun passes on to its processes and leaves them time for, and that batch systems send before the end of a
// job (Slurm: --signal=USR1@60); SIGHUP comes when a terminal closes.
#pragma once

#include <signal.h>

#include <array>

namespace maxtext {

/// While it lives, the first of these signals is only noted; a SIGINT or SIGTERM after it has the system's default
/// effect and ends the process at once. A SIGHUP that was ignored before (nohup) stays ignored. The destructor restores
/// the handlers that were there before. Handlers belong to
/// the process, so only one may exist at a time: a second one throws std::logic_error.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Read between steps, from any thread. In a run of several devices let one device read it and tell the others, or
  /// they may see it in different steps.
  bool requested() const { return number() != 0; }

  /// The signal, or 0.
  int number() const;

  /// "SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP", or "" when nothing was requested.
  const char* name() const;

 private:
  static constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  std::array<struct sigaction, kSignals.size()> previous_{};
};

}  // namespace maxtext
