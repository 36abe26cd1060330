#include "train/save_agreement.h"

#include <utility>

namespace maxtext {
namespace {

constexpr int kPhases = 3;

}  // namespace

void SaveAgreement::begin() {
  const std::lock_guard lock(mutex_);
  phases_left_ = kPhases;
}

bool SaveAgreement::active() const {
  const std::lock_guard lock(mutex_);
  return phases_left_ > 0;
}

void SaveAgreement::serve(const std::function<bool(bool)>& agree) {
  std::optional<bool> mine;
  {
    const std::lock_guard lock(mutex_);
    if (phases_left_ == 0) return;
    mine = proposal_;
  }
  if (!agree(mine.has_value())) return;
  const bool succeeded = agree(mine.value_or(false));
  const std::lock_guard lock(mutex_);
  proposal_.reset();
  answer_ = succeeded;
  phases_left_ = succeeded ? phases_left_ - 1 : 0;
  changed_.notify_all();
}

bool SaveAgreement::propose(bool succeeded) {
  std::unique_lock lock(mutex_);
  proposal_ = succeeded;
  changed_.wait(lock, [this] { return answer_.has_value() || cancelled_; });
  return std::exchange(answer_, std::nullopt).value_or(false);
}

void SaveAgreement::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  phases_left_ = 0;
  changed_.notify_all();
}

}  // namespace maxtext
