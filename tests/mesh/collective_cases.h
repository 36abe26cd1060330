// Data and expected results for tests of collectives: every value follows from (device, buffer, index), and the
// expected results are computed without a transport.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mesh/communicator.h"

namespace maxtext::testing {

using Bytes = std::vector<std::byte>;

/// Magnitudes from 1e-6 to 1e6 and both signs, so that a sum taken in another order has other bits.
inline double value_of(int device, std::size_t buffer, std::int64_t index) {
  std::uint64_t hash = static_cast<std::uint64_t>(device) * 1000003 + buffer * 7919 + static_cast<std::uint64_t>(index);
  hash = (hash ^ (hash >> 31U)) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 29U)) * 0xBF58476D1CE4E5B9U;
  hash ^= hash >> 32U;
  const double unit = static_cast<double>(hash & 0xFFFFFFFFU) / 4294967296.0;
  constexpr std::array<double, 7> kScales{1e-6, 1e-4, 1e-2, 1, 1e2, 1e4, 1e6};
  return (unit - 0.5) * kScales[(hash >> 32U) % kScales.size()];
}

template <typename T>
void store(Bytes& bytes, std::int64_t index, T value) {
  std::memcpy(bytes.data() + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

inline void store_value(Bytes& bytes, ElementType element, std::int64_t index, double value) {
  if (element == ElementType::float32) return store(bytes, index, static_cast<float>(value));
  if (element == ElementType::float64) return store(bytes, index, value);
  store(bytes, index, static_cast<std::byte>(static_cast<int>(value * 1000) & 0xFF));
}

inline Bytes make_send(int device, std::size_t buffer, ElementType element, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count * element_size(element)));
  for (std::int64_t i = 0; i < count; ++i) store_value(bytes, element, i, value_of(device, buffer, i));
  return bytes;
}

/// A collective of the whole test matrix: what is sent, by whom.
struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::all_gather;
  AxisSet axes;
  ElementType element = ElementType::float32;
  ReduceOp reduce = ReduceOp::sum;
  std::vector<std::int64_t> counts;
};

inline std::int64_t send_count(const CollectiveCase& c, std::size_t buffer, int group_size) {
  return c.counts[buffer] * (c.kind == CollectiveKind::reduce_scatter ? group_size : 1);
}

inline std::int64_t receive_count(const CollectiveCase& c, std::size_t buffer, int group_size) {
  return c.counts[buffer] * (c.kind == CollectiveKind::all_gather ? group_size : 1);
}

template <typename T>
T reduce_pair(ReduceOp op, T a, T b) {
  return op == ReduceOp::sum ? a + b : std::max(a, b);
}

template <typename T>
void reduce_into(Bytes& result, ReduceOp op, const std::vector<Bytes>& sends, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    T total{};
    for (std::size_t r = 0; r < sends.size(); ++r) {
      T value{};
      std::memcpy(&value, sends[r].data() + (first + i) * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      total = r == 0 ? value : reduce_pair(op, total, value);
    }
    store(result, i, total);
  }
}

/// What `device` must receive in `buffer`.
inline Bytes expected_result(const Mesh& mesh, int device, const CollectiveCase& c, std::size_t buffer) {
  const std::vector<int> members = mesh.group(device, c.axes);
  const int size = static_cast<int>(members.size());
  std::vector<Bytes> sends;
  for (const int member : members) {
    sends.push_back(make_send(member, buffer, c.element, send_count(c, buffer, size)));
  }
  Bytes result;
  if (c.kind == CollectiveKind::all_gather) {
    for (const Bytes& send : sends) result.insert(result.end(), send.begin(), send.end());
    return result;
  }
  const std::int64_t count = c.counts[buffer];
  result.resize(static_cast<std::size_t>(count * element_size(c.element)));
  const std::int64_t first =
      c.kind == CollectiveKind::reduce_scatter ? count * mesh.group_rank(device, c.axes) : std::int64_t{0};
  if (c.element == ElementType::float32) {
    reduce_into<float>(result, c.reduce, sends, first, count);
  } else {
    reduce_into<double>(result, c.reduce, sends, first, count);
  }
  return result;
}

/// One device's part of a case: its memory and, once started, its handle.
class CaseRun {
 public:
  CaseRun(const Communicator& communicator, CollectiveCase c, bool in_place = false) : case_(std::move(c)) {
    device_ = communicator.device();
    const int size = communicator.mesh().size(case_.axes);
    for (std::size_t b = 0; b < case_.counts.size(); ++b) {
      sends_.push_back(make_send(device_, b, case_.element, send_count(case_, b, size)));
      const auto receive_bytes = static_cast<std::size_t>(receive_count(case_, b, size) * element_size(case_.element));
      receives_.push_back(in_place ? sends_.back() : Bytes(receive_bytes, std::byte{0xAB}));
    }
    in_place_ = in_place;
  }

  void start(Communicator& communicator, std::vector<std::shared_ptr<void>> keepalive = {}) {
    CollectiveRequest request{case_.kind, case_.axes, case_.element, case_.reduce, {}, std::move(keepalive), "case"};
    for (std::size_t b = 0; b < case_.counts.size(); ++b) {
      const std::byte* send = in_place_ ? receives_[b].data() : sends_[b].data();
      request.buffers.push_back({send, receives_[b].data(), case_.counts[b]});
    }
    pending_ = communicator.start(std::move(request));
  }

  void wait() { pending_->wait(); }
  void spoil_sends() {
    for (Bytes& send : sends_) std::fill(send.begin(), send.end(), std::byte{0xCD});
  }
  const Bytes& result(std::size_t buffer) const { return receives_[buffer]; }
  const CollectiveCase& collective() const { return case_; }

  /// Empty, or which buffer is wrong.
  std::string mismatch(const Mesh& mesh) const {
    for (std::size_t b = 0; b < case_.counts.size(); ++b) {
      if (receives_[b] != expected_result(mesh, device_, case_, b)) {
        return fmt::format("device {}: {} over {} of {} elements: wrong result in buffer {}", device_,
                           collective_name(case_.kind), to_string(case_.axes), case_.counts[b], b);
      }
    }
    return "";
  }

 private:
  CollectiveCase case_;
  int device_ = 0;
  bool in_place_ = false;
  std::vector<Bytes> sends_;
  std::vector<Bytes> receives_;
  std::unique_ptr<PendingCollective> pending_;
};

/// Kinds × elements × operations that carry data.
inline std::vector<CollectiveCase> all_cases(AxisSet axes, const std::vector<std::int64_t>& counts) {
  std::vector<CollectiveCase> cases;
  for (const ElementType element : {ElementType::bytes, ElementType::float32, ElementType::float64}) {
    cases.push_back({CollectiveKind::all_gather, axes, element, ReduceOp::sum, counts});
    if (element == ElementType::bytes) continue;
    for (const CollectiveKind kind : {CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
      for (const ReduceOp reduce : {ReduceOp::sum, ReduceOp::max})
        cases.push_back({kind, axes, element, reduce, counts});
    }
  }
  return cases;
}

/// The 16 subsets of the configured axes.
inline std::vector<AxisSet> all_axis_sets() {
  std::vector<AxisSet> sets;
  for (unsigned bits = 0; bits < (1U << kConfiguredAxes.size()); ++bits) {
    AxisSet set;
    for (unsigned i = 0; i < kConfiguredAxes.size(); ++i) {
      if ((bits & (1U << i)) != 0) set = set | AxisSet(static_cast<Axis>(i));
    }
    sets.push_back(set);
  }
  return sets;
}

}  // namespace maxtext::testing
