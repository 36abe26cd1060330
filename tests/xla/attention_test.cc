// Attention in tiles on a plugin against the cpu engine. Tiles have at most 128 keys below 1024 keys, so a few hundred
// tokens are several tiles in both directions, the last of them partly filled.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "engines/xla/attention_tiles.h"
#include "xla/ops_on_plugin.h"
#include "xla/traced_text.h"

namespace maxtext::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Key intervals of the queries of each batch row, in original tokens.
struct Intervals {
  std::vector<std::int32_t> begin, end;

  void add(std::int64_t first, std::int64_t last) {
    begin.push_back(static_cast<std::int32_t>(first));
    end.push_back(static_cast<std::int32_t>(last));
  }
};

struct Case {
  std::int64_t batch = 1, queries = 1, query_heads = 1, head_dim = 8;
  std::int64_t devices = 1, keys_per_device = 1;
  std::int64_t kv_heads = 1;
  std::int64_t heads_at_once = 0;  ///< 0: all KV heads in one op; else groups that write in place
  double softcap = 0;
  Intervals intervals = {};
  DType dtype = DType::float32;

  std::int64_t keys() const { return devices * keys_per_device; }
};

/// Every query i of every row sees what `interval(i)` adds.
void for_queries(Case& c, const std::function<void(std::int64_t)>& interval) {
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t i = 0; i < c.queries; ++i) interval(i);
  }
}

Case causal(std::int64_t length, std::int64_t window) {
  Case c{.queries = length, .query_heads = 4, .keys_per_device = length, .kv_heads = 2};
  for_queries(c, [&](std::int64_t i) { c.intervals.add(std::max<std::int64_t>(0, i + 1 - window), i + 1); });
  return c;
}

bool is_seen(const Case& c, std::int64_t b, std::int64_t token) {
  for (std::int64_t i = b * c.queries; i < (b + 1) * c.queries; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (c.intervals.begin[at] <= token && token < c.intervals.end[at]) return true;
  }
  return false;
}

/// Original token j lies on device (j / 2) % P, and the second row begins at another device: order differs from the
/// original one and between rows.
std::vector<std::int32_t> gathered_slots(const Case& c) {
  std::vector<std::int32_t> slots;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    std::vector<std::int64_t> used(static_cast<std::size_t>(c.devices), 0);
    for (std::int64_t j = 0; j < c.keys(); ++j) {
      auto device = static_cast<std::size_t>((j / 2 + b + 1) % c.devices);
      while (used[device] == c.keys_per_device) device = (device + 1) % used.size();
      slots.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(device) * c.keys_per_device + used[device]));
      ++used[device];
    }
  }
  return slots;
}

/// [P, B, T_kv, heads, D]; NaN where no query looks.
std::vector<float> keys_of(const Case& c, std::int64_t heads, const std::vector<std::int32_t>& slots, double phase) {
  const std::int64_t row = heads * c.head_dim;
  std::vector<float> values = some_values(c.keys() * c.batch * row, phase);
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t j = 0; j < c.keys(); ++j) {
      if (is_seen(c, b, j)) continue;
      const std::int64_t slot = slots[static_cast<std::size_t>(b * c.keys() + j)];
      const std::int64_t at = (slot / c.keys_per_device * c.batch + b) * c.keys_per_device + slot % c.keys_per_device;
      std::fill_n(values.begin() + at * row, row, kNaN);
    }
  }
  return values;
}

/// [B, T, query_heads, D]; NaN in queries without keys.
std::vector<float> queries_of(const Case& c, double phase) {
  const std::int64_t row = c.query_heads * c.head_dim;
  std::vector<float> values = some_values(c.batch * c.queries * row, phase);
  for (std::int64_t i = 0; i < c.batch * c.queries; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (c.intervals.begin[at] >= c.intervals.end[at]) std::fill_n(values.begin() + i * row, row, kNaN);
  }
  return values;
}

/// In a program of bfloat16 the values of bfloat16, which the cpu engine gets as float32.
Tensor activation(Engine& engine, const Case& c, Shape shape, const std::vector<float>& values) {
  const Tensor x = engine.apply_one(Cast{c.dtype}, {input_of<float>(engine, std::move(shape), values)});
  const bool widen = c.dtype == DType::bfloat16 && dynamic_cast<CpuEngine*>(&engine) != nullptr;
  return widen ? engine.apply_one(Cast{DType::float32}, {x}) : x;
}

struct Group {
  std::int64_t first, heads;
};

std::vector<Group> groups_of(const Case& c) {
  if (c.heads_at_once == 0) return {{0, c.kv_heads}};
  std::vector<Group> groups;
  for (std::int64_t first = 0; first < c.kv_heads; first += c.heads_at_once) groups.push_back({first, c.heads_at_once});
  return groups;
}

/// o, logsumexp, dq, and dk, dv of each group.
std::vector<Tensor> forward_and_backward(Engine& engine, const Case& c) {
  const std::vector<std::int32_t> slots = gathered_slots(c);
  const Shape q_shape{c.batch, c.queries, c.query_heads, c.head_dim};
  const Tensor q = activation(engine, c, q_shape, queries_of(c, 0));
  const Tensor d_o = activation(engine, c, q_shape, queries_of(c, 3));
  const std::vector<Tensor> places = {input_of<std::int32_t>(engine, {c.batch, c.keys()}, slots),
                                      input_of<std::int32_t>(engine, {c.batch, c.queries}, c.intervals.begin),
                                      input_of<std::int32_t>(engine, {c.batch, c.queries}, c.intervals.end)};
  std::vector<std::vector<Tensor>> inputs;  // of each group
  Tensor o, logsumexp, dq;
  for (const Group& group : groups_of(c)) {
    const Shape shape{c.devices, c.batch, c.keys_per_device, group.heads, c.head_dim};
    const auto phase = static_cast<double>(group.first);
    inputs.push_back({q, activation(engine, c, shape, keys_of(c, group.heads, slots, 1 + phase)),
                      activation(engine, c, shape, keys_of(c, group.heads, slots, 2 + phase))});
    inputs.back().insert(inputs.back().end(), places.begin(), places.end());
    std::vector<Tensor> all = inputs.back();
    if (o.defined()) all.insert(all.end(), {o, logsumexp});
    const AttentionForward op{.scale = 0.7, .softcap = c.softcap, .kv_heads = c.kv_heads, .kv_head_begin = group.first};
    const std::vector<Tensor> found = engine.apply(op, all);
    o = found[0];
    logsumexp = found[1];
  }
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<Tensor> all = inputs[i];
    all.insert(all.end(), {o, logsumexp, d_o});
    if (dq.defined()) all.push_back(dq);
    const AttentionBackward op{
        .scale = 0.7, .softcap = c.softcap, .kv_heads = c.kv_heads, .kv_head_begin = groups_of(c)[i].first};
    const std::vector<Tensor> found = engine.apply(op, all);
    dq = found[0];
    results.insert(results.end(), found.begin() + 1, found.end());
  }
  results.insert(results.end(), {o, logsumexp, dq});
  if (c.dtype == DType::bfloat16) {
    for (Tensor& tensor : results) tensor = engine.apply_one(Cast{DType::float32}, {tensor});
  }
  return results;
}

class XlaAttention : public XlaOpsOnPlugin {
 protected:
  void expect_equal_to_cpu(const Case& c, double tolerance = 1e-5) {
    expect_equal([&](Engine& engine) { return forward_and_backward(engine, c); }, tolerance);
  }
};

TEST(XlaAttentionTiles, AreBoundedAndNotLargerThanNeeded) {
  const auto expect_tiles = [](std::int64_t queries, std::int64_t keys, std::int64_t group, std::int64_t query_tile,
                               std::int64_t key_tile) {
    const AttentionTiles tiles = attention_tiles(queries, keys, group);
    EXPECT_EQ(tiles.queries, query_tile) << queries << " " << keys << " " << group;
    EXPECT_EQ(tiles.keys, key_tile) << queries << " " << keys << " " << group;
  };
  expect_tiles(1, 1, 1, 1, 1);
  expect_tiles(100, 100, 4, 100, 100);
  expect_tiles(300, 300, 2, 104, 128);
  expect_tiles(2048, 2048, 4, 256, 256);
  expect_tiles(8192, 131072, 1, 1024, 1024);
  expect_tiles(8192, 131072, 8, 512, 1024);
  expect_tiles(8192, 131072, 1024, 4, 1024);
}

TEST_F(XlaAttention, OneQuery) {
  Case c;
  c.intervals.add(0, 1);
  expect_equal_to_cpu(c);
}

TEST_F(XlaAttention, OneQueryOfManyKeys) {
  Case c{.query_heads = 4, .keys_per_device = 300, .kv_heads = 2};
  c.intervals.add(140, 290);
  expect_equal_to_cpu(c);
}

TEST_F(XlaAttention, CausalOverSeveralTiles) { expect_equal_to_cpu(causal(300, 300)); }

TEST_F(XlaAttention, WindowsSkipTiles) {
  expect_equal_to_cpu(causal(300, 40));
  expect_equal_to_cpu(causal(300, 2));
}

TEST_F(XlaAttention, PackedDocumentsAndPadding) {
  Case c{.batch = 2, .queries = 300, .query_heads = 4, .keys_per_device = 300, .kv_heads = 2};
  for_queries(c, [&](std::int64_t i) {
    const std::int64_t document = i < 90 ? 0 : (i < 200 ? 90 : 200);
    i < 270 ? c.intervals.add(document, i + 1) : c.intervals.add(0, 0);
  });
  expect_equal_to_cpu(c);
}

TEST_F(XlaAttention, RowsWithoutKeysAmongOthers) {
  Case c{.queries = 200, .query_heads = 2, .keys_per_device = 260, .kv_heads = 1};
  // Whole tiles of queries and of keys see nothing of each other, and so does every third query.
  for_queries(
      c, [&](std::int64_t i) { i < 110 || i % 3 == 0 ? c.intervals.add(i, i) : c.intervals.add(150, 160 + i / 4); });
  expect_equal_to_cpu(c);
}

TEST_F(XlaAttention, KeysOfTwoDevicesInSwappedOrder) {
  Case c{.batch = 2, .queries = 150, .query_heads = 4, .devices = 2, .keys_per_device = 150, .kv_heads = 2};
  for_queries(c, [&](std::int64_t i) { c.intervals.add(0, 2 * i + 1); });
  expect_equal_to_cpu(c);
}

TEST_F(XlaAttention, GroupsOfKvHeadsWriteInPlace) {
  Case c = causal(140, 140);
  c.query_heads = 8;
  c.kv_heads = 4;
  for (const std::int64_t heads : {1, 2}) {
    c.heads_at_once = heads;
    expect_equal_to_cpu(c);
  }
}

TEST_F(XlaAttention, SoftCap) {
  Case c = causal(300, 100);
  c.softcap = 1.5;
  expect_equal_to_cpu(c);
}

TEST_F(XlaAttention, Float64IsExact) {
  Case c = causal(300, 200);
  c.dtype = DType::float64;
  c.softcap = 1.5;
  expect_equal_to_cpu(c, 1e-12);
}

TEST_F(XlaAttention, Bfloat16SumsInFloat32) {
  // o, p, ds and dq are rounded to 8 bits, half a unit of 2⁻⁸ each; sums of 300 products in bfloat16 would be an
  // order of magnitude worse.
  Case c = causal(300, 300);
  c.dtype = DType::bfloat16;
  expect_equal_to_cpu(c, 1.0 / 128);
}

/// The program that an engine traces, on no device.
std::string traced_text(const Case& c) {
  return testing::traced_text([&](Engine& engine) { return forward_and_backward(engine, c); });
}

/// The elements of the largest tensor that `text` names.
std::int64_t largest_tensor(const std::string& text) {
  std::int64_t largest = 0;
  for (std::size_t at = text.find("tensor<"); at != std::string::npos; at = text.find("tensor<", at + 1)) {
    std::istringstream sizes(text.substr(at + 7, text.find('>', at) - at - 7));
    std::int64_t elements = 1;
    for (std::int64_t size = 0; sizes >> size && sizes.get() == 'x';) elements *= size;
    largest = std::max(largest, elements);
  }
  return largest;
}

TEST(XlaAttentionText, NothingIsLargerThanATileOfScores) {
  // A tile has the rows of 88 queries and 2 heads; dense scores of one head would be 264 · 520 = 137280 elements, K and
  // V are 640 · 2 · 8 = 10240.
  Case c{.queries = 264, .query_heads = 4, .keys_per_device = 520, .kv_heads = 2};
  for_queries(c, [&](std::int64_t i) { c.intervals.add(0, i + 1); });
  const std::string text = traced_text(c);
  EXPECT_NE(text.find("tensor<176x128xf32>"), std::string::npos) << "the tile of scores has another size";
  EXPECT_EQ(largest_tensor(text), 176 * 128);
  EXPECT_EQ(text.find("f64"), std::string::npos);
}

TEST(XlaAttentionText, Bfloat16ProductsAreSummedInFloat32) {
  Case c = causal(4, 4);
  c.dtype = DType::bfloat16;
  const std::string text = traced_text(c);
  EXPECT_EQ(text.find("f64"), std::string::npos);
  std::size_t products = 0;
  for (std::size_t at = text.find("dot_general"); at != std::string::npos; at = text.find("dot_general", at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    EXPECT_NE(line.find("bf16>, tensor"), std::string::npos) << line;
    EXPECT_TRUE(line.ends_with("xf32>")) << line;
    ++products;
  }
  EXPECT_EQ(products, 7);
}

}  // namespace
}  // namespace maxtext::testing
