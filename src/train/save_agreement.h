// How processes that save beside training agree on each phase of a save. Only the thread of a device may communicate,
// so the saving thread puts its part down here and waits, and the device's thread takes it along between steps.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

namespace maxtext {

/// A save has three phases (SaveOptions::all_succeeded). Whether one is under way is the same on every process after
/// each `begin` and `serve`, since both are called between the same steps and answers are common; so the collectives
/// match without further talk. Cost: while a save is under way, one or two reductions of one number per step.
class SaveAgreement {
 public:
  /// The device's thread: a save starts, here and on all other processes.
  void begin();

  /// The device's thread: whether the last save still has phases to agree on.
  bool active() const;

  /// The device's thread: does one round of a save under way, in which a phase ends if all processes are done with it.
  /// `agree(mine)` is collective, and true on all iff `mine` is true on all.
  void serve(const std::function<bool(bool)>& agree);

  /// The saving thread: ends a phase; true iff all processes succeeded in it. Blocks until they are done.
  bool propose(bool succeeded);

  /// The device's thread ends: proposals, waiting ones too, fail.
  void cancel();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int phases_left_ = 0;
  bool cancelled_ = false;
  std::optional<bool> proposal_;
  std::optional<bool> answer_;
};

}  // namespace maxtext
