#include "attention/all_gather_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "cpu/device.h"
#include "engines/cpu/attention_kernel.h"
#include "engines/dry/dry_engine.h"
#include "mesh/device_program.h"

namespace maxtext::testing {
namespace {

constexpr std::int64_t kSlots = 6;  // per device
constexpr std::int64_t kQueryHeads = 4;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kHeadDim = 8;

struct Gradients {
  std::vector<double> o, dq, dk, dv;
  double flops = 0;
};

struct DeviceInputs {
  std::vector<double> q, k, v, dy;
  std::vector<std::int32_t> key_begin, key_end;
};

Gradients run_device(Engine& engine, int devices, const DeviceInputs& inputs, const RematPolicy& policy) {
  const auto shape = [&](std::int64_t heads) { return Shape{1, kSlots, heads, kHeadDim}; };
  std::vector<std::int32_t> slots(static_cast<std::size_t>(devices * kSlots));
  std::iota(slots.begin(), slots.end(), 0);
  double area = 0;
  for (std::size_t i = 0; i < inputs.key_begin.size(); ++i) area += inputs.key_end[i] - inputs.key_begin[i];
  Graph graph(engine);
  const Variable q = graph.input(put(engine, shape(kQueryHeads), inputs.q));
  const Variable k = graph.input(put(engine, shape(kKvHeads), inputs.k));
  const Variable v = graph.input(put(engine, shape(kKvHeads), inputs.v));
  const AttentionInputs constants{.gathered_slots = graph.constant(put(engine, {1, devices * kSlots}, slots)),
                                  .key_begin = graph.constant(put(engine, {1, kSlots}, inputs.key_begin)),
                                  .key_end = graph.constant(put(engine, {1, kSlots}, inputs.key_end)),
                                  .area = area};
  const Variable o = all_gather_attention(q, gather_keys_and_values(k, v), constants, {.scale = 0.3});
  Gradients result;
  result.o = get<double>(engine, graph.forward({o}, &policy)[0]);
  const std::vector<Tensor> gradients = graph.backward({o}, {put(engine, shape(kQueryHeads), inputs.dy)}, {q, k, v});
  result.dq = get<double>(engine, gradients[0]);
  result.dk = get<double>(engine, gradients[1]);
  result.dv = get<double>(engine, gradients[2]);
  result.flops = engine.flops();
  return result;
}

std::vector<Gradients> run(const std::vector<DeviceInputs>& inputs, const char* policy) {
  const int devices = static_cast<int>(inputs.size());
  ThreadTransport transport(Mesh({1, 1, devices, 1}));
  std::vector<Gradients> results(inputs.size());
  run_devices(
      transport.local_devices(),
      [&](int device) {
        const auto communicator = transport.communicator(device);
        CpuEngine engine({.threads = 1}, *communicator);
        results[static_cast<std::size_t>(device)] =
            run_device(engine, devices, inputs[static_cast<std::size_t>(device)], remat_policy(policy));
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return results;
}

/// Device d holds tokens d·kSlots …; causal over `documents` of (first, length); tokens in none are padding with NaN
/// keys and values.
std::vector<DeviceInputs> causal_inputs(int devices, const std::vector<std::pair<int, int>>& documents) {
  std::vector<DeviceInputs> all;
  for (int d = 0; d < devices; ++d) {
    DeviceInputs inputs;
    const auto seed = static_cast<unsigned>(10 * d);
    inputs.q = random_values<double>(kSlots * kQueryHeads * kHeadDim, seed + 1);
    inputs.k = random_values<double>(kSlots * kKvHeads * kHeadDim, seed + 2);
    inputs.v = random_values<double>(kSlots * kKvHeads * kHeadDim, seed + 3);
    inputs.dy = random_values<double>(kSlots * kQueryHeads * kHeadDim, seed + 4);
    for (int slot = 0; slot < kSlots; ++slot) {
      const int token = d * static_cast<int>(kSlots) + slot;
      std::int32_t begin = 0;
      std::int32_t end = 0;
      for (const auto& [first, length] : documents) {
        if (token < first || token >= first + length) continue;
        begin = first;
        end = token + 1;
      }
      inputs.key_begin.push_back(begin);
      inputs.key_end.push_back(end);
      if (end > begin) continue;
      const auto row = static_cast<std::size_t>(slot * kKvHeads * kHeadDim);
      std::fill_n(inputs.k.begin() + static_cast<std::ptrdiff_t>(row), kKvHeads * kHeadDim, std::nan(""));
      std::fill_n(inputs.v.begin() + static_cast<std::ptrdiff_t>(row), kKvHeads * kHeadDim, std::nan(""));
    }
    all.push_back(std::move(inputs));
  }
  return all;
}

void expect_zero(const std::vector<double>& values, const std::string& what) {
  for (const double value : values) ASSERT_EQ(value, 0) << what;
}

void expect_finite(const std::vector<double>& values, const std::string& what) {
  for (const double value : values) ASSERT_TRUE(std::isfinite(value)) << what;
}

TEST(AllGatherAttention, ADeviceWithoutVisibleKeysGivesZerosAndNoNaN) {
  for (const char* policy : {"none", "full"}) {
    // All tokens of device 1 are padding.
    const std::vector<Gradients> results = run(causal_inputs(3, {{0, 6}, {12, 4}}), policy);
    for (const std::vector<double>* values : {&results[1].o, &results[1].dq, &results[1].dk, &results[1].dv}) {
      expect_zero(*values, policy);
    }
    EXPECT_EQ(results[1].flops, 0);
    for (const int d : {0, 2}) {
      const Gradients& r = results[static_cast<std::size_t>(d)];
      for (const std::vector<double>* values : {&r.o, &r.dq, &r.dk, &r.dv}) expect_finite(*values, policy);
      EXPECT_GT(r.flops, 0);
    }
    // The last two tokens of device 2 are padding, too.
    const std::vector<double>& o = results[2].o;
    expect_zero({o.begin() + 4 * kQueryHeads * kHeadDim, o.end()}, "rows without keys");
  }
}

TEST(AllGatherAttention, NothingVisibleAnywhere) {
  for (const int devices : {1, 2}) {
    for (const Gradients& result : run(causal_inputs(devices, {}), "full")) {
      for (const std::vector<double>* values : {&result.o, &result.dq, &result.dk, &result.dv}) {
        expect_zero(*values, "no keys");
      }
      EXPECT_EQ(result.flops, 0);
    }
  }
}

TEST(AllGatherAttention, DevicesTogetherEqualOne) {
  const std::vector<DeviceInputs> parts = causal_inputs(2, {{0, 5}, {5, 7}});
  const std::vector<Gradients> results = run(parts, "full");
  // The same tokens on one device, by the kernel's own contract.
  const std::int64_t tokens = 2 * kSlots;
  const auto join = [&](auto member) {
    std::vector<double> joined = parts[0].*member;
    joined.insert(joined.end(), (parts[1].*member).begin(), (parts[1].*member).end());
    return joined;
  };
  const std::vector<double> q = join(&DeviceInputs::q);
  const std::vector<double> k = join(&DeviceInputs::k);
  const std::vector<double> v = join(&DeviceInputs::v);
  for (std::int64_t i = 0; i < tokens; ++i) {
    const DeviceInputs& part = parts[static_cast<std::size_t>(i / kSlots)];
    const auto slot = static_cast<std::size_t>(i % kSlots);
    for (std::int64_t h = 0; h < kQueryHeads; ++h) {
      const std::int64_t kv = h / (kQueryHeads / kKvHeads);
      std::vector<double> p;
      double sum = 0;
      for (std::int64_t j = part.key_begin[slot]; j < part.key_end[slot]; ++j) {
        double s = 0;
        for (std::int64_t c = 0; c < kHeadDim; ++c) {
          s += q[static_cast<std::size_t>((i * kQueryHeads + h) * kHeadDim + c)] *
               k[static_cast<std::size_t>((j * kKvHeads + kv) * kHeadDim + c)];
        }
        p.push_back(std::exp(0.3 * s));
        sum += p.back();
      }
      for (std::int64_t c = 0; c < kHeadDim; ++c) {
        double expected = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          const std::int64_t key = part.key_begin[slot] + static_cast<std::int64_t>(j);
          expected += p[j] / sum * v[static_cast<std::size_t>((key * kKvHeads + kv) * kHeadDim + c)];
        }
        const std::vector<double>& o = results[static_cast<std::size_t>(i / kSlots)].o;
        EXPECT_NEAR(o[static_cast<std::size_t>(((i % kSlots) * kQueryHeads + h) * kHeadDim + c)], expected, 1e-12);
      }
    }
  }
}

TEST(AllGatherAttention, GroupsOfKvHeads) {
  // (KV heads, devices) -> groups: one head each where there are few, never more than eight.
  const std::map<std::pair<std::int64_t, int>, std::size_t> expected = {
      {{1, 2}, 1}, {{2, 2}, 2}, {{8, 2}, 8}, {{8, 1}, 1}, {{12, 4}, 6}, {{16, 2}, 8}, {{17, 2}, 1}};
  for (const auto& [key, groups] : expected) {
    DryEngine engine(Mesh({1, 1, key.second, 1}), 0);
    Graph graph(engine);
    const Variable k = graph.input(engine.allocate({{1, 4, key.first, 8}, DType::float32}));
    EXPECT_EQ(gather_keys_and_values(k, k).keys.size(), groups) << key.first;
  }
}

/// No S² in scratch: a window keeps the work small, the lengths are what differs.
TEST(AttentionWorkspace, GrowsWithTheLengthNotItsSquare) {
  const auto workspace_bytes = [](std::int64_t length) {
    const AttentionShape shape{.batch = 1,
                               .query_length = length,
                               .query_heads = 2,
                               .head_dim = 16,
                               .devices = 1,
                               .kv_length = length,
                               .group_kv_heads = 1,
                               .kv_heads = 1,
                               .kv_head_begin = 0,
                               .scale = 0.25};
    const auto size = static_cast<std::size_t>(length);
    std::vector<float> q(size * 32, 0.1F), k(size * 16, 0.2F), v(size * 16, 0.3F), o(size * 32), logsumexp(size * 2);
    std::vector<float> dq(size * 32), dk(size * 16), dv(size * 16);
    std::vector<std::int32_t> slots(size), begin(size), end(size);
    for (std::size_t i = 0; i < size; ++i) {
      slots[i] = static_cast<std::int32_t>(i);
      begin[i] = std::max(static_cast<std::int32_t>(i) - 15, 0);
      end[i] = static_cast<std::int32_t>(i) + 1;
    }
    Workspace workspace;
    const AttentionExecution one_thread{.threads = 1};
    attention_forward(shape, q.data(), k.data(), v.data(), slots.data(), begin.data(), end.data(), o.data(),
                      logsumexp.data(), workspace, one_thread);
    attention_backward(shape, q.data(), k.data(), v.data(), slots.data(), begin.data(), end.data(), o.data(),
                       logsumexp.data(), q.data(), dq.data(), dk.data(), dv.data(), workspace, one_thread);
    return workspace.bytes();
  };
  const std::int64_t half = workspace_bytes(16384);
  const std::int64_t whole = workspace_bytes(32768);
  EXPECT_GT(half, 0);
  EXPECT_LE(whole, 2.1 * static_cast<double>(half));
}

}  // namespace
}  // namespace maxtext::testing
