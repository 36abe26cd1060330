// A polite stop: SIGINT and SIGTERM ask the loop to finish its step, save and leave.
#pragma once

#include <signal.h>

#include <array>

namespace maxtext {

/// While it lives, the first SIGINT or SIGTERM is only noted; a second one, of either kind, has the system's default
/// effect and ends the process at once. The destructor restores the handlers that were there before. Handlers belong to
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

  /// SIGINT, SIGTERM, or 0.
  int number() const;

  /// "SIGINT", "SIGTERM", or "" when nothing was requested.
  const char* name() const;

 private:
  static constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
  std::array<struct sigaction, 2> previous_{};
};

}  // namespace maxtext
