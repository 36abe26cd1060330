#include "mesh/delayed_communicator.h"

#include <thread>
#include <utility>

#include "base/splitmix64.h"

namespace maxtext {
namespace {

using Clock = std::chrono::steady_clock;

class DelayedPending final : public PendingCollective {
 public:
  DelayedPending(std::unique_ptr<PendingCollective> inner, Clock::time_point ready)
      : inner_(std::move(inner)), ready_(ready) {}

  void wait() override {
    inner_->wait();
    std::this_thread::sleep_until(ready_);
  }

 private:
  std::unique_ptr<PendingCollective> inner_;
  Clock::time_point ready_;
};

class DelayedCommunicator final : public Communicator {
 public:
  DelayedCommunicator(std::unique_ptr<Communicator> inner, DelayOptions options)
      : inner_(std::move(inner)), options_(options) {}

  const Mesh& mesh() const override { return inner_->mesh(); }
  int device() const override { return inner_->device(); }
  std::unique_ptr<PendingCollective> start(CollectiveRequest request) override {
    const bool alone = mesh().size(request.axes) == 1;
    const Clock::time_point ready = Clock::now() + next_delay();
    std::unique_ptr<PendingCollective> pending = inner_->start(std::move(request));
    return alone ? std::move(pending) : std::make_unique<DelayedPending>(std::move(pending), ready);
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  const CollectiveCounters& counters() const override { return inner_->counters(); }
  bool shares_memory() const override { return inner_->shares_memory(); }
  GroupMemory allocate_shared(AxisSet axes, std::int64_t bytes_per_rank) override {
    return inner_->allocate_shared(axes, bytes_per_rank);
  }

 private:
  std::chrono::microseconds next_delay() {
    if (!options_.random) return options_.delay;
    const std::uint64_t device_seed = splitmix64(options_.seed ^ splitmix64(static_cast<std::uint64_t>(device())));
    const auto span = static_cast<std::uint64_t>(options_.delay.count()) + 1;
    return std::chrono::microseconds(splitmix64(device_seed + number_++) % span);
  }

  std::unique_ptr<Communicator> inner_;
  DelayOptions options_;
  std::uint64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> delayed_communicator(std::unique_ptr<Communicator> inner, DelayOptions options) {
  if (options.delay.count() < 0) fail("a delay of {} us was asked for", options.delay.count());
  return std::make_unique<DelayedCommunicator>(std::move(inner), options);
}

}  // namespace maxtext
