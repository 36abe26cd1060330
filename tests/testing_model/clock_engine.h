// A device with a clock of its own: shapes only, each op takes its FLOPs at a given rate, each collective arrives a
// given time after it was started. What a program waits for can be counted without a quiet machine; so can what it
// holds and how often it runs an op.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/engine.h"

namespace maxtext::testing {

struct ClockOptions {
  double flops_per_second = 1e9;
  /// Collectives in flight together are late together. All devices are taken to start a collective at the same time,
  /// which holds for programs with equal work.
  double collective_seconds = 0;
};

class ClockEngine final : public Engine {
 public:
  ClockEngine(Mesh mesh, int device, ClockOptions options)
      : mesh_(std::move(mesh)), device_(device), options_(options) {}

  Tensor allocate(const TensorSpec& spec) override;
  Tensor allocate_shard(const TensorSpec& spec, AxisSet axes) override;
  Tensor input(const TensorSpec& spec, std::span<const std::byte> bytes) override;
  void read(const Tensor& tensor, std::span<std::byte> destination) override;
  void write(const Tensor& tensor, std::span<const std::byte> source) override;
  bool has_data() const override { return false; }
  const Mesh& mesh() const override { return mesh_; }
  int device() const override { return device_; }

  /// Seconds on the device's clock, of it in ops, and of it waiting.
  double now() const { return now_; }
  double busy() const { return busy_; }
  double waited() const { return now_ - busy_; }
  int collectives() const { return collectives_; }
  /// One line for each wait: "linear waits 0.02 s for all_gather".
  const std::vector<std::string>& waits() const { return waits_; }
  /// The most bytes of a kind that were live at any time.
  std::int64_t most_bytes(MemoryKind kind) const { return most_bytes_[static_cast<std::size_t>(kind)]; }
  /// The most results of all_gathers over `axes` that were live at any time; what one op gathers counts once.
  int most_gathered(AxisSet axes) const;
  /// How often an op ran, views not counted.
  int runs(std::string_view op) const;

  void restart() {
    now_ = busy_ = 0;
    collectives_ = 0;
    waits_.clear();
    runs_.clear();
    most_bytes_ = memory().live_by_kind();
  }

 protected:
  void execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) override;

 private:
  void wait_for(const Tensor& tensor, std::string_view reader);

  Mesh mesh_;
  int device_;
  ClockOptions options_;
  double now_ = 0;
  double busy_ = 0;
  int collectives_ = 0;
  std::vector<std::string> waits_;
  std::map<std::string, int, std::less<>> runs_;
  MemoryByKind most_bytes_{};
  struct Gathered {
    int live = 0;
    int most = 0;
  };
  /// By the bits of the axes; shared with tokens that storages hold.
  std::map<std::uint8_t, std::shared_ptr<Gathered>> gathered_;
};

}  // namespace maxtext::testing
