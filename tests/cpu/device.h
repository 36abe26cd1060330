// One device with a cpu engine, and tensors made from vectors.
#pragma once

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "engines/cpu/cpu_engine.h"
#include "mesh/thread_transport.h"

namespace maxtext::testing {

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::float32;
  if constexpr (std::is_same_v<T, double>) return DType::float64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::int64;
  return DType::int32;
}

template <typename T>
Tensor put(Engine& engine, Shape shape, const std::vector<T>& values) {
  return engine.input({std::move(shape), dtype_of<T>()}, std::as_bytes(std::span(values)));
}

template <typename T>
std::vector<T> get(Engine& engine, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
  engine.read(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Normally distributed values, the same on every machine (no std::normal_distribution).
template <typename T>
std::vector<T> random_values(std::int64_t count, unsigned seed, double scale = 1) {
  std::mt19937_64 generator(seed);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(generator() >> 11U) * 0x1p-53;
    value = static_cast<T>(sum * scale);
  }
  return values;
}

template <typename T>
Tensor random(Engine& engine, Shape shape, unsigned seed, double scale = 1) {
  const std::int64_t count = element_count(shape);
  return put(engine, std::move(shape), random_values<T>(count, seed, scale));
}

class CpuDevice {
 public:
  explicit CpuDevice(int threads = 1) : CpuDevice(CpuEngineOptions{.threads = threads}) {}
  explicit CpuDevice(CpuEngineOptions options)
      : transport_(Mesh({1, 1, 1, 1})), communicator_(transport_.communicator(0)), engine_(options, *communicator_) {}

  CpuEngine& operator*() { return engine_; }
  CpuEngine* operator->() { return &engine_; }

 private:
  ThreadTransport transport_;
  std::unique_ptr<Communicator> communicator_;
  CpuEngine engine_;
};

}  // namespace maxtext::testing
