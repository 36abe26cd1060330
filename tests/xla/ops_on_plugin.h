// Single ops on a plugin against the cpu engine.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "engines/cpu/cpu_engine.h"
#include "engines/xla/xla_engine.h"
#include "engines/xla/xla_runtime.h"
#include "mesh/thread_transport.h"
#include "testing/compare.h"
#include "xla/plugin.h"

namespace maxtext::testing {

inline const Mesh kOneDevice({1, 1, 1, 1});

template <typename T>
Tensor input_of(Engine& engine, Shape shape, const std::vector<T>& values) {
  const DType dtype = std::is_same_v<T, float> ? DType::float32 : DType::int32;
  return engine.input({std::move(shape), dtype}, std::as_bytes(std::span(values)));
}

inline std::vector<float> read_floats(Engine& engine, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  engine.read(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

inline std::vector<double> read_doubles(Engine& engine, const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  engine.read(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Different, smooth values.
inline std::vector<float> some_values(std::int64_t count, double phase) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i)));
  }
  return result;
}

class XlaOpsOnPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
    runtime_ = std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), 1), 1);
  }

  /// The results of `program`, float32 or float64, on the xla engine are those on the cpu engine.
  void expect_equal(const std::function<std::vector<Tensor>(Engine&)>& program, double tolerance = 1e-5) {
    ThreadTransport transport{Mesh(kOneDevice)};
    const std::unique_ptr<Communicator> communicator = transport.communicator(0);
    CpuEngine cpu({.threads = 1}, *communicator);
    XlaEngine xla(kOneDevice, 0, runtime_);
    const std::vector<Tensor> expected = program(cpu);
    const std::vector<Tensor> actual = program(xla);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string name = fmt::format("result {}", i);
      if (expected[i].dtype() == DType::float64) {
        EXPECT_TRUE(all_close(read_doubles(xla, actual[i]), read_doubles(cpu, expected[i]), tolerance, name));
      } else {
        EXPECT_TRUE(all_close(read_floats(xla, actual[i]), read_floats(cpu, expected[i]), tolerance, name));
      }
    }
  }

  std::shared_ptr<XlaRuntime> runtime_;
};

}  // namespace maxtext::testing
