// The ops of decoding on the cpu engine: appending to a cache, attending to it, merging states.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/decode_case.h"
#include "cpu/device.h"
#include "tensor/half.h"
#include "testing/compare.h"

namespace maxtext {
namespace {

using testing::bitwise_equal;
using testing::CpuDevice;
using testing::get;
using testing::put;
using testing::random_values;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// A tensor of `dtype` whose every bit is set.
Tensor poisoned(Engine& engine, Shape shape, DType dtype) {
  const TensorSpec spec{std::move(shape), dtype};
  const std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()), std::byte{0xff});
  return engine.input(spec, bytes);
}

std::vector<float> floats(Engine& engine, const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.spec().bytes()));
  engine.read(tensor, bytes);
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  convert_to_float(bytes, tensor.dtype(), values);
  return values;
}

/// Elements [first, first + count) of one row of D = `width`.
std::vector<float> row_of(const std::vector<float>& values, std::int64_t row, std::int64_t width) {
  return {values.begin() + row * width, values.begin() + (row + 1) * width};
}

TEST(CacheAppend, RoundsAsTheConversionsDo) {
  CpuDevice device;
  // Every kind of value: subnormal in float16, ties, overflow, infinities, NaN.
  std::vector<float> values = random_values<float>(64, 1);
  const std::vector<float> special{0,       -0.0F, 1e-8F,    -6e-8F,    2.98e-8F,  65504,          65519.9F,
                                   65520,   1e30F, infinity, -infinity, nan_value, 1.00048828125F, 1.00146484375F,
                                   6.1e-5F, 3e38F};
  std::ranges::copy(special, values.begin());
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    const auto outputs = device->apply(
        CacheAppend{}, {poisoned(*device, {1, 1, 2, 64}, dtype), put<float>(*device, {1, 1, 1, 64}, values),
                        put<std::int32_t>(*device, {1}, {1})});
    std::vector<std::byte> expected(static_cast<std::size_t>(64 * dtype_size(dtype)));
    convert_from_float(values, dtype, expected);
    std::vector<std::byte> stored(2 * expected.size());
    device->read(outputs[0], stored);
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), stored.begin() + static_cast<std::ptrdiff_t>(expected.size())))
        << dtype_name(dtype);
  }
}

TEST(CacheAppend, PlacesRowsAndDropsThoseOutside) {
  for (const int threads : {1, 2}) {
    CpuDevice device(threads);
    const std::int64_t B = 3, H = 2, capacity = 5, D = 4, T = 3;
    const std::vector<float> rows = random_values<float>(B * T * H * D, 2);
    const std::vector<std::int32_t> position{0, 4, -2};
    const auto append = [&](const CacheAppend& op) {
      return floats(*device, device->apply_one(op, {poisoned(*device, {B, H, capacity, D}, DType::float32),
                                                    put<float>(*device, {B, T, H, D}, rows),
                                                    put<std::int32_t>(*device, {B}, position)}));
    };
    const std::vector<float> plain = append({});
    const std::vector<float> ring = append({.ring = true});
    for (std::int64_t b = 0; b < B; ++b) {
      for (std::int64_t h = 0; h < H; ++h) {
        for (std::int64_t slot = 0; slot < capacity; ++slot) {
          const std::vector<float> in_plain = row_of(plain, (b * H + h) * capacity + slot, D);
          const std::vector<float> in_ring = row_of(ring, (b * H + h) * capacity + slot, D);
          std::vector<float> expected_plain;
          std::vector<float> expected_ring;
          for (std::int64_t t = 0; t < T; ++t) {
            const std::int64_t at = position[static_cast<std::size_t>(b)] + t;
            const std::vector<float> row = row_of(rows, (b * T + t) * H + h, D);
            if (at == slot) expected_plain = row;
            if (at >= 0 && at % capacity == slot) expected_ring = row;
          }
          for (const auto& [actual, expected] :
               {std::pair(in_plain, expected_plain), std::pair(in_ring, expected_ring)}) {
            if (expected.empty()) {
              EXPECT_TRUE(std::isnan(actual[0])) << b << " " << h << " " << slot;
            } else {
              EXPECT_EQ(actual, expected) << b << " " << h << " " << slot;
            }
          }
        }
      }
    }
  }
}

TEST(CacheAppend, TheLastOfARingStays) {
  CpuDevice device(2);
  const std::vector<float> rows = random_values<float>(11, 3);
  const Tensor cache = device->apply_one(
      CacheAppend{.ring = true}, {poisoned(*device, {1, 1, 4, 1}, DType::float32),
                                  put<float>(*device, {1, 11, 1, 1}, rows), put<std::int32_t>(*device, {1}, {2})});
  // Positions 2 … 12: slots 0, 1, 2, 3 hold 12, 9, 10, 11.
  EXPECT_EQ(floats(*device, cache), (std::vector<float>{rows[10], rows[7], rows[8], rows[9]}));
}

TEST(CacheAppend, UnevenRows) {
  CpuDevice device;
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  const Tensor cache =
      device->apply_one(CacheAppend{.has_rows = true},
                        {put<float>(*device, {2, 1, 3, 1}, {0, 0, 0, 0, 0, 0}), put<float>(*device, {2, 3, 1, 1}, rows),
                         put<std::int32_t>(*device, {2}, {0, 0}), put<std::int32_t>(*device, {2}, {1, 2})});
  EXPECT_EQ(floats(*device, cache), (std::vector<float>{1, 0, 0, 4, 5, 0}));
}

TEST(CacheAppend, QuantizesRowsWithTheirScales) {
  CpuDevice device;
  const std::int64_t D = 48;
  std::vector<float> rows = random_values<float>(4 * D, 4);
  std::fill(rows.begin() + D, rows.begin() + 2 * D, 0.0F);
  rows[static_cast<std::size_t>(2 * D + 5)] = nan_value;
  rows[static_cast<std::size_t>(3 * D + 5)] = -infinity;
  const auto outputs = device->apply(
      CacheAppend{}, {poisoned(*device, {1, 1, 4, D}, DType::int8), put<float>(*device, {1, 4, 1, D}, rows),
                      put<std::int32_t>(*device, {1}, {0}), poisoned(*device, {1, 1, 4}, DType::float32)});
  const std::vector<float> levels = floats(*device, outputs[0]);
  const std::vector<float> scales = get<float>(*device, outputs[1]);
  const testing::StoredRow expected =
      testing::store_row(DType::int8, std::span(rows).first(static_cast<std::size_t>(D)));
  EXPECT_EQ(scales[0], expected.scale);
  float largest = 0;
  for (std::int64_t d = 0; d < D; ++d) {
    const auto i = static_cast<std::size_t>(d);
    EXPECT_LE(std::abs(levels[i] * scales[0] - rows[i]), 0.501F * scales[0]);
    EXPECT_EQ(levels[i] * scales[0], expected.values[i]);
    EXPECT_EQ(levels[static_cast<std::size_t>(D) + i], 0.0F);
    largest = std::max(largest, std::abs(levels[i]));
  }
  EXPECT_EQ(largest, 127.0F);
  EXPECT_EQ(scales[1], 0.0F);
  EXPECT_TRUE(std::isnan(scales[2]) && std::isnan(scales[3]));
}

/// Tokens come in pieces of several lengths, into a ring and into a plain cache of each dtype; each piece is attended
/// to at once, and every row equals the formula.
TEST(DecodeOps, AppendingAndAttendingStepByStep) {
  const std::int64_t B = 2, H = 2, group = 2, D = 16, window = 6;
  const std::vector<std::int64_t> pieces{5, 1, 1, 3, 1, 2, 4, 1};
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::int8}) {
    for (const bool ring : {false, true}) {
      CpuDevice device(2);
      const std::int64_t capacity = ring ? window + 5 - 1 : 32;
      testing::DecodeProblem x;
      x.positions = 18;
      x.k = random_values<float>(B * H * x.positions * D, 5);
      x.v = random_values<float>(B * H * x.positions * D, 6);
      x.start_idx = {0, 2};
      Tensor cache[2] = {poisoned(*device, {B, H, capacity, D}, dtype), poisoned(*device, {B, H, capacity, D}, dtype)};
      Tensor scales[2];
      if (dtype == DType::int8) {
        for (Tensor& scale : scales) scale = poisoned(*device, {B, H, capacity}, DType::float32);
      }
      std::int64_t length = 0;
      for (const std::int64_t T : pieces) {
        for (int which = 0; which < 2; ++which) {
          std::vector<float> rows;
          for (std::int64_t b = 0; b < B; ++b) {
            for (std::int64_t t = 0; t < T; ++t) {
              for (std::int64_t h = 0; h < H; ++h) {
                const auto row = row_of(which == 0 ? x.k : x.v, (b * H + h) * x.positions + length + t, D);
                rows.insert(rows.end(), row.begin(), row.end());
              }
            }
          }
          const auto at = static_cast<std::int32_t>(length);
          std::vector<Tensor> inputs{cache[which], put<float>(*device, {B, T, H, D}, rows),
                                     put<std::int32_t>(*device, {B}, {at, at})};
          if (dtype == DType::int8) inputs.push_back(scales[which]);
          const auto outputs = device->apply(CacheAppend{.ring = ring}, inputs);
          EXPECT_EQ(outputs[0].storage(), cache[which].storage());
          cache[which] = outputs[0];
          if (dtype == DType::int8) scales[which] = outputs[1];
        }
        length += T;
        const auto kv_seq_len = static_cast<std::int32_t>(length);
        x.kv_seq_len = {kv_seq_len, kv_seq_len};
        x.q = random_values<float>(B * T * H * group * D, static_cast<unsigned>(length));
        x.shape = {.batch = B,
                   .query_length = T,
                   .query_heads = H * group,
                   .kv_heads = H,
                   .head_dim = D,
                   .capacity = capacity,
                   .cache_dtype = dtype,
                   .scale = 0.3,
                   .window = window,
                   .ring = ring};
        std::vector<Tensor> inputs{put<float>(*device, {B, T, H * group, D}, x.q), cache[0], cache[1],
                                   put<std::int32_t>(*device, {B}, x.start_idx),
                                   put<std::int32_t>(*device, {B}, x.kv_seq_len)};
        if (dtype == DType::int8) inputs.insert(inputs.end(), {scales[0], scales[1]});
        const auto outputs = device->apply(DecodeAttention{.scale = 0.3, .window = window, .ring = ring}, inputs);
        testing::expect_close(
            {get<float>(*device, outputs[0]), get<float>(*device, outputs[1]), get<float>(*device, outputs[2])},
            testing::expected_result(x), std::string(dtype_name(dtype)) + " at " + std::to_string(length));
      }
    }
  }
}

TEST(DecodeOps, SinksAndScalesReachTheKernel) {
  CpuDevice device(2);
  testing::DecodeProblem x = testing::decode_problem(
      {.query_heads = 4, .kv_heads = 2, .head_dim = 16, .cache_dtype = DType::int8, .softcap = 5, .normalize = false},
      {0, 3}, {40, 20});
  x.sinks = {1, 2, 3, -1};
  const auto quantized = [&](const std::vector<float>& values) {
    std::vector<std::byte> bytes;
    std::vector<float> scales;
    for (std::size_t row = 0; row < values.size() / 16; ++row) {
      const testing::StoredRow stored = testing::store_row(DType::int8, std::span(values).subspan(row * 16, 16));
      bytes.insert(bytes.end(), stored.bytes.begin(), stored.bytes.end());
      scales.push_back(stored.scale);
    }
    return std::pair(device->input({{2, 2, 40, 16}, DType::int8}, bytes), put<float>(*device, {2, 2, 40}, scales));
  };
  const auto [k, k_scale] = quantized(x.k);
  const auto [v, v_scale] = quantized(x.v);
  const auto outputs = device->apply(
      DecodeAttention{.scale = x.shape.scale, .softcap = 5, .normalize = false, .has_sinks = true},
      {put<float>(*device, {2, 1, 4, 16}, x.q), k, v, put<std::int32_t>(*device, {2}, x.start_idx),
       put<std::int32_t>(*device, {2}, x.kv_seq_len), k_scale, v_scale, put<float>(*device, {4}, x.sinks)});
  testing::expect_close(
      {get<float>(*device, outputs[0]), get<float>(*device, outputs[1]), get<float>(*device, outputs[2])},
      testing::expected_result(x), "int8 with sinks");
}

/// States of B 2, T 3, 4 query heads, D 8 over `parts` disjoint parts of 60 keys, as one MergeStates input.
struct States {
  std::vector<float> o, l, m;
  std::int64_t count = 0;

  void append(const testing::DecodeResult& state) {
    o.insert(o.end(), state.o.begin(), state.o.end());
    l.insert(l.end(), state.l.begin(), state.l.end());
    m.insert(m.end(), state.m.begin(), state.m.end());
    ++count;
  }
};

constexpr DecodeShape merge_shape{
    .query_length = 3, .query_heads = 4, .kv_heads = 2, .head_dim = 8, .capacity = 60, .normalize = false};

testing::DecodeResult merged(Engine& engine, const States& states, const MergeStates& op,
                             const std::vector<float>& sinks = {}) {
  const std::int64_t n = states.count;
  std::vector<Tensor> inputs{put<float>(engine, {n, 2, 3, 4, 8}, states.o), put<float>(engine, {n, 2, 4, 3}, states.l),
                             put<float>(engine, {n, 2, 4, 3}, states.m)};
  if (op.has_sinks) inputs.push_back(put<float>(engine, {4}, sinks));
  const auto outputs = engine.apply(op, inputs);
  return {get<float>(engine, outputs[0]), get<float>(engine, outputs[1]), get<float>(engine, outputs[2])};
}

/// The keys [begin, end) of `x` only, for rows that stand behind all of them or among them.
testing::DecodeResult state_over(const testing::DecodeProblem& x, std::int64_t begin, std::int64_t end) {
  testing::DecodeProblem part = x;
  for (std::int32_t& start : part.start_idx) start = std::max(start, static_cast<std::int32_t>(begin));
  part.shape.capacity = end;
  return testing::run_decode(part, {.threads = 2});
}

TEST(MergeStates, AnyPartitionEqualsTheWhole) {
  CpuDevice device(2);
  testing::DecodeProblem x = testing::decode_problem(merge_shape, {0, 7}, {60, 45});
  const testing::DecodeResult whole = testing::expected_result(x);
  for (const std::vector<std::int64_t>& cuts :
       {std::vector<std::int64_t>{0, 60}, {0, 1, 60}, {0, 30, 60}, {0, 20, 20, 59, 60}, {0, 7, 14, 21, 44, 45, 60}}) {
    States states;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      states.append(cuts[i] == cuts[i + 1] ? state_over(x, 60, 60) : state_over(x, cuts[i], cuts[i + 1]));
    }
    testing::expect_close(merged(*device, states, {.normalize = false}), whole, "state");
    testing::DecodeProblem normalised = x;
    normalised.shape.normalize = true;
    testing::expect_close(merged(*device, states, {}), testing::expected_result(normalised), "normalised");
  }
}

TEST(MergeStates, Associative) {
  CpuDevice device;
  const testing::DecodeProblem x = testing::decode_problem(merge_shape, {0, 7}, {60, 45});
  States left;
  left.append(state_over(x, 0, 13));
  left.append(state_over(x, 13, 40));
  States right;
  right.append(state_over(x, 13, 40));
  right.append(state_over(x, 40, 60));
  States first;
  first.append(merged(*device, left, {.normalize = false}));
  first.append(state_over(x, 40, 60));
  States second;
  second.append(state_over(x, 0, 13));
  second.append(merged(*device, right, {.normalize = false}));
  testing::expect_close(merged(*device, first, {}), merged(*device, second, {}), "(a b) c = a (b c)");
}

TEST(MergeStates, EmptyIsTheIdentityAndItsOutputIsNotRead) {
  CpuDevice device;
  const testing::DecodeProblem x = testing::decode_problem(merge_shape, {0, 7}, {60, 45});
  const testing::DecodeResult state = state_over(x, 0, 60);
  testing::DecodeResult empty{std::vector<float>(state.o.size(), nan_value), std::vector<float>(state.l.size(), 0),
                              std::vector<float>(state.m.size(), -infinity)};
  testing::DecodeResult lowest = empty;  // the Pallas kernel's empty state
  std::ranges::fill(lowest.m, std::numeric_limits<float>::lowest());
  States states;
  states.append(empty);
  states.append(state);
  states.append(lowest);
  const testing::DecodeResult result = merged(*device, states, {.normalize = false});
  EXPECT_TRUE(bitwise_equal(result.o, state.o));
  EXPECT_TRUE(bitwise_equal(result.l, state.l));
  EXPECT_TRUE(bitwise_equal(result.m, state.m));
  States nothing;
  nothing.append(empty);
  nothing.append(lowest);
  for (const bool normalize : {false, true}) {
    const testing::DecodeResult none = merged(*device, nothing, {.normalize = normalize});
    EXPECT_EQ(none.o, std::vector<float>(state.o.size(), 0));
    EXPECT_EQ(none.l, std::vector<float>(state.l.size(), 0));
    EXPECT_EQ(none.m, std::vector<float>(state.m.size(), -infinity));
  }
}

TEST(MergeStates, ASinkJoinsOnce) {
  CpuDevice device;
  testing::DecodeProblem x = testing::decode_problem(merge_shape, {0, 7}, {60, 2});
  States states;
  states.append(state_over(x, 0, 25));
  states.append(state_over(x, 25, 60));
  x.sinks = {1.5F, -3, 0, 40};
  testing::expect_close(merged(*device, states, {.normalize = false, .has_sinks = true}, x.sinks),
                        testing::expected_result(x), "sink");
  x.shape.normalize = true;
  testing::expect_close(merged(*device, states, {.has_sinks = true}, x.sinks), testing::expected_result(x),
                        "sink, normalised");
}

TEST(MergeStates, ANormalisedOutputWithItsLogsumexpIsAState) {
  CpuDevice device;
  testing::DecodeProblem x = testing::decode_problem(merge_shape, {0, 0}, {60, 45});
  States states;
  for (const auto& [begin, end] : {std::pair(0, 31), std::pair(31, 60)}) {
    testing::DecodeProblem part = x;
    part.shape.normalize = true;
    part.shape.capacity = end;
    for (std::int32_t& start : part.start_idx) start = begin;
    testing::DecodeResult state = testing::run_decode(part, {.threads = 1});
    for (std::size_t i = 0; i < state.l.size(); ++i) {
      state.m[i] += std::log(state.l[i]);  // −∞ stays −∞
      state.l[i] = 1;
    }
    states.append(state);
  }
  x.shape.normalize = true;
  const testing::DecodeResult result = merged(*device, states, {});
  EXPECT_LE(testing::decode_errors({result.o, {}, {}}, {testing::expected_result(x).o, {}, {}}).o, 1e-5);
}

}  // namespace
}  // namespace maxtext
