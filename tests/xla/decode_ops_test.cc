// The ops of generation on a plugin against the cpu engine: moving data, caches, attention over them. Whatever an op
// must not read is poison.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/decode_case.h"
#include "tensor/half.h"
#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr DType kCacheDTypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::int8};

void append_to(std::vector<Tensor>& all, const std::vector<Tensor>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// A cache tensor with every bit set.
Tensor poisoned(Engine& engine, Shape shape, DType dtype) {
  const TensorSpec spec{std::move(shape), dtype};
  return engine.input(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes()), std::byte{0xff}));
}

/// A cache in memory of the engine, and its scales if it is int8.
struct CacheTensors {
  Tensor rows;
  Tensor scales;
};

CacheTensors cache_of(Engine& engine, const DecodeProblem& x, const std::vector<float>& values) {
  const DecodeShape& s = x.shape;
  const PoisonedCache cache(x, values, CacheLayout::head_major);
  const CacheView view = cache.view(s);
  const TensorSpec rows{{s.batch, s.kv_heads, s.capacity, s.head_dim}, s.cache_dtype};
  const TensorSpec scales{{s.batch, s.kv_heads, s.capacity}, DType::float32};
  CacheTensors tensors{engine.input(rows, {view.data, static_cast<std::size_t>(rows.bytes())}), {}};
  if (view.scales != nullptr) {
    tensors.scales =
        engine.input(scales, std::as_bytes(std::span(view.scales, static_cast<std::size_t>(scales.elements()))));
  }
  return tensors;
}

/// o, l and m of a step.
std::vector<Tensor> attend(Engine& engine, const DecodeProblem& x) {
  const DecodeShape& s = x.shape;
  const CacheTensors k = cache_of(engine, x, x.k);
  const CacheTensors v = cache_of(engine, x, x.v);
  std::vector<Tensor> inputs = {input_of<float>(engine, {s.batch, s.query_length, s.query_heads, s.head_dim}, x.q),
                                k.rows, v.rows, input_of<std::int32_t>(engine, {s.batch}, x.start_idx),
                                input_of<std::int32_t>(engine, {s.batch}, x.kv_seq_len)};
  if (k.scales.defined()) append_to(inputs, {k.scales, v.scales});
  if (!x.sinks.empty()) inputs.push_back(input_of<float>(engine, {s.query_heads}, x.sinks));
  return engine.apply(DecodeAttention{.scale = s.scale,
                                      .window = s.window,
                                      .softcap = s.softcap,
                                      .ring = s.ring,
                                      .normalize = s.normalize,
                                      .batch_invariant = s.batch_invariant,
                                      .has_sinks = !x.sinks.empty()},
                      inputs);
}

class XlaDecodeOps : public XlaOpsOnPlugin {
 protected:
  /// All in one program, which is compiled once.
  void expect_same_steps(const std::vector<DecodeProblem>& problems) {
    expect_equal([&](Engine& engine) -> std::vector<Tensor> {
      std::vector<Tensor> all;
      for (const DecodeProblem& x : problems) append_to(all, attend(engine, x));
      return all;
    });
  }
};

TEST_F(XlaDecodeOps, TransposeTakeAndSum) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const Tensor x = input_of<float>(engine, {2, 3, 4}, some_values(24, 0));
    const Tensor index = input_of<std::int32_t>(engine, {5}, {1, 0, 1, 1, 0});
    const Tensor sum = engine.apply_one(Sum{}, {x});
    const Tensor scalar_sum = engine.apply_one(Sum{}, {input_of<float>(engine, {}, {0.3F})});
    return {engine.apply_one(Transpose{{2, 0, 1}}, {x}), engine.apply_one(Take{}, {x, index}),
            engine.apply_one(Cast{DType::float32}, {sum}), engine.apply_one(Cast{DType::float32}, {scalar_sum})};
  });
}

TEST_F(XlaDecodeOps, SumIsInDouble) {
  // In float32 the ones are lost beside 2^25.
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    std::vector<float> values(101, 1.0F);
    values[0] = 33554432.0F;
    values[50] = -33554432.0F;
    const Tensor sum = engine.apply_one(Sum{}, {input_of<float>(engine, {101}, values)});
    return {engine.apply_one(Cast{DType::float32}, {sum})};
  });
}

TEST_F(XlaDecodeOps, AttentionOfEveryDTypeAndLength) {
  std::vector<DecodeProblem> problems;
  for (const DType dtype : kCacheDTypes) {
    for (const std::int64_t group : {1, 3, 8}) {
      const DecodeShape shape{
          .query_heads = 2 * group, .kv_heads = 2, .head_dim = 20, .capacity = 300, .cache_dtype = dtype};
      problems.push_back(decode_problem(shape, {0, 0, 3, 100, 5, 0, 7, -4}, {0, 1, 127, 128, 129, 300, 7, -3}));
    }
  }
  expect_same_steps(problems);
}

TEST_F(XlaDecodeOps, AttentionOverManyTiles) {
  std::vector<DecodeProblem> problems;
  for (const DType dtype : {DType::float32, DType::int8}) {
    DecodeShape shape{.query_heads = 4, .kv_heads = 2, .head_dim = 8, .capacity = 4500, .cache_dtype = dtype};
    problems.push_back(decode_problem(shape, {0, 17, 2047}, {4500, 2049, 4000}));
    problems.push_back(decode_problem(shape, {1100, 1024}, {1500, 1024}));  // one tile; the second sees nothing
    problems.push_back(decode_problem(shape, {0, 0}, {0, 0}));              // none
    shape.capacity = 20000;                                                 // longer tiles
    problems.push_back(decode_problem(shape, {0, 0}, {2100, 5200}));
    shape.capacity = 4096;
    shape.window = 900;
    shape.query_length = 3;
    problems.push_back(decode_problem(shape, {0, 0}, {4096, 2500}));
    shape.ring = true;
    shape.capacity = 2000;
    problems.push_back(decode_problem(shape, {0, 0}, {4500, 1200}));
    shape.batch_invariant = true;
    problems.push_back(decode_problem(shape, {0, 4000}, {4500, 1200}));
  }
  expect_same_steps(problems);
}

TEST_F(XlaDecodeOps, SeveralRowsAreAlignedAtTheEnd) {
  std::vector<DecodeProblem> problems;
  for (const DType dtype : kCacheDTypes) {
    for (const std::int64_t window : {0, 1, 6, 140}) {
      const DecodeShape shape{
          .query_length = 3, .query_heads = 6, .kv_heads = 2, .head_dim = 8, .cache_dtype = dtype, .window = window};
      // Among them rows before the first position and before start_idx.
      problems.push_back(decode_problem(shape, {0, 0, 298, 7, 0}, {300, 2, 300, 129, 0}));
    }
  }
  expect_same_steps(problems);
}

TEST_F(XlaDecodeOps, ARingHoldsTheWindow) {
  std::vector<DecodeProblem> problems;
  for (const std::int64_t rows : {1, 3}) {
    const std::int32_t window = 130;
    const DecodeShape shape{.query_length = rows,
                            .query_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 8,
                            .capacity = window + rows - 1,
                            .window = window,
                            .ring = true};
    problems.push_back(
        decode_problem(shape, {0, 0, 0, 0, 0, 0, 0}, {0, 1, window - 1, window, window + 1, 2 * window, 5 * window}));
  }
  // Overwritten positions are not seen, with no window either.
  problems.push_back(
      decode_problem({.query_length = 2, .query_heads = 2, .kv_heads = 1, .head_dim = 8, .capacity = 40, .ring = true},
                     {0, 70}, {100, 75}));
  expect_same_steps(problems);
}

TEST_F(XlaDecodeOps, PartsOfACacheTakeNegativeAndLargeLengths) {
  // The middle 100 of 300 positions.
  const DecodeShape shape{
      .query_length = 2, .query_heads = 4, .kv_heads = 2, .head_dim = 8, .capacity = 100, .normalize = false};
  DecodeProblem x = decode_problem(shape, {0, 0, 0}, {100, 100, 100});
  x.start_idx = {-80, -100, 50};
  x.kv_seq_len = {200, -10, 101};
  expect_same_steps({x});
}

TEST_F(XlaDecodeOps, SoftcapSinksAndStates) {
  std::vector<DecodeProblem> problems;
  for (const double softcap : {0.0, 2.0}) {
    for (const bool normalize : {false, true}) {
      const DecodeShape shape{
          .query_heads = 4, .kv_heads = 2, .head_dim = 16, .softcap = softcap, .normalize = normalize};
      problems.push_back(decode_problem(shape, {0, 0, 10, 0}, {300, 1, 5, 0}));
      problems.push_back(problems.back());
      problems.back().sinks = {0.5F, -20, 30, 2};
    }
  }
  expect_same_steps(problems);
}

TEST_F(XlaDecodeOps, BatchInvariantAttentionDoesNotDependOnItsNeighbours) {
  // States as they leave the loop: a compiler may fuse the division by l with the subtraction below, and round once.
  const DecodeShape shape{
      .query_heads = 4, .kv_heads = 2, .head_dim = 16, .capacity = 1000, .normalize = false, .batch_invariant = true};
  const DecodeProblem together = decode_problem(shape, {0, 600, 0}, {700, 1000, 3});
  DecodeProblem alone = together;
  alone.kv_seq_len = {700, 0, 0};
  expect_equal([&](Engine& engine) -> std::vector<Tensor> {
    const std::vector<Tensor> first = attend(engine, together);
    const std::vector<Tensor> second = attend(engine, alone);
    std::vector<Tensor> differences;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Slice one{.axis = 0, .start = 0, .length = 1};
      const Tensor negative = engine.apply_one(Scale{.factor = -1}, {engine.apply_one(one, {second[i]})});
      differences.push_back(engine.apply_one(Add{}, {engine.apply_one(one, {first[i]}), negative}));
    }
    return differences;  // of the cpu engine zeros, so they have to be zeros
  });
}

TEST_F(XlaDecodeOps, MergingStates) {
  for (const bool normalize : {false, true}) {
    for (const bool has_sinks : {false, true}) {
      expect_equal([&](Engine& engine) -> std::vector<Tensor> {
        // Four states of B 2, T 3, 4 heads, D 5. State 1 is empty and NaN, by l in one half and by m in the other;
        // everything is empty for head 2.
        std::vector<float> o = some_values(4 * 2 * 3 * 4 * 5, 0), l = some_values(4 * 2 * 4 * 3, 1), m = l;
        for (float& value : l) value = 1.5F + value;
        for (float& value : m) value *= 40;
        std::fill_n(o.begin() + 2 * 3 * 4 * 5, 2 * 3 * 4 * 5, kNaN);
        std::fill_n(l.begin() + 24, 12, 0.0F);
        std::fill_n(m.begin() + 24, 12, std::numeric_limits<float>::lowest());
        std::fill_n(m.begin() + 36, 12, -kInfinity);
        for (std::size_t state = 0; state < 8; ++state) {
          std::fill_n(l.begin() + static_cast<std::ptrdiff_t>(state * 12 + 6), 3, 0.0F);
        }
        std::vector<Tensor> inputs = {input_of<float>(engine, {4, 2, 3, 4, 5}, o),
                                      input_of<float>(engine, {4, 2, 4, 3}, l),
                                      input_of<float>(engine, {4, 2, 4, 3}, m)};
        if (has_sinks) inputs.push_back(input_of<float>(engine, {4}, {1.5F, -3, 0, 40}));
        return engine.apply(MergeStates{.normalize = normalize, .has_sinks = has_sinks}, inputs);
      });
    }
  }
}

/// A cache after its rows were appended, as floats: NaN of slots that were not written would fail the comparison, so
/// the cache begins as a pattern.
struct Append {
  Shape cache;  // [B, kv_heads, capacity, D]
  std::int64_t rows = 1;
  std::vector<std::int32_t> position;
  std::vector<std::int32_t> counts = {};
  bool ring = false;
};

std::vector<Tensor> append(Engine& engine, const Append& a, DType dtype) {
  const TensorSpec spec{a.cache, dtype};
  const bool quantised = dtype == DType::int8;
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()), std::byte{17});
  if (!quantised) convert_from_float(some_values(spec.elements(), 3), dtype, bytes);
  const std::int64_t batch = a.cache[0];
  std::vector<float> values = some_values(batch * a.rows * a.cache[1] * a.cache[3], 4);
  std::fill_n(values.begin(), a.cache[3], 0.0F);
  std::vector<Tensor> inputs = {engine.input(spec, bytes),
                                input_of<float>(engine, {batch, a.rows, a.cache[1], a.cache[3]}, values),
                                input_of<std::int32_t>(engine, {batch}, a.position)};
  if (quantised) {
    const Shape scales{batch, a.cache[1], a.cache[2]};
    inputs.push_back(input_of<float>(engine, scales, some_values(element_count(scales), 5)));
  }
  if (!a.counts.empty()) inputs.push_back(input_of<std::int32_t>(engine, {batch}, a.counts));
  const std::vector<Tensor> cache = engine.apply(CacheAppend{.ring = a.ring, .has_rows = !a.counts.empty()}, inputs);
  std::vector<Tensor> all;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto sequence = [&](const Tensor& tensor) {
      Shape one = tensor.shape();
      one[0] = 1;
      return tensor.view(b * element_count(one), one);
    };
    for (std::int64_t head = 0; head < a.cache[1]; ++head) {
      const CacheRead read{.kv_head = head, .length = a.cache[2] - 1};
      const Tensor rows = quantised ? engine.apply_one(read, {sequence(cache[0]), sequence(cache[1])})
                                    : engine.apply_one(read, {sequence(cache[0])});
      all.push_back(engine.apply_one(Scale{.factor = 1}, {rows}));
    }
    const CacheRead last{.kv_head = 0, .length = a.cache[2]};
    const Tensor rows = quantised ? engine.apply_one(last, {sequence(cache[0]), sequence(cache[1])})
                                  : engine.apply_one(last, {sequence(cache[0])});
    all.push_back(engine.apply_one(Scale{.factor = 1}, {rows}));
  }
  return all;
}

TEST_F(XlaDecodeOps, AppendPlacesRowsAndDropsThoseOutside) {
  std::vector<Append> cases;
  for (const bool ring : {false, true}) {
    cases.push_back({{3, 2, 5, 4}, 3, {0, 4, -2}, {}, ring});
    cases.push_back({{4, 2, 5, 4}, 1, {3, -1, 7, 0}, {}, ring});
    cases.push_back({{2, 1, 6, 3}, 3, {0, 5}, {1, 2}, ring});
    cases.push_back({{1, 1, 4, 1}, 11, {2}, {}, ring});  // of a ring the last stay
    for (const std::int32_t position : {-30, -3, -2, -1, 0, 2, 3, 4, 5, 6, 13, 40}) {
      cases.push_back({{1, 2, 6, 3}, 3, {position}, {}, ring});
      cases.push_back({{1, 2, 6, 3}, 1, {position}, {}, ring});
      cases.push_back({{1, 1, 4, 2}, 6, {position}, {5}, ring});
    }
    cases.push_back({{1, 2, 6, 3}, 3, {2}, {0}, ring});
    cases.push_back({{1, 2, 6, 3}, 3, {2}, {-4}, ring});
    cases.push_back({{1, 2, 6, 3}, 3, {2}, {9}, ring});
  }
  for (const DType dtype : {DType::float32, DType::int8}) {
    expect_equal([&](Engine& engine) -> std::vector<Tensor> {
      std::vector<Tensor> all;
      for (const Append& one : cases) append_to(all, append(engine, one, dtype));
      return all;
    });
  }
}

TEST_F(XlaDecodeOps, AppendRoundsToEven) {
  // Subnormal in float16, ties, overflow, infinities.
  const std::vector<float> values{0,      -0.0F, 1e-8F,     -6e-8F,     2.98e-8F,       65504,          65519.9F, 1e30F,
                                  -1e30F, 3e38F, kInfinity, -kInfinity, 1.00048828125F, 1.00146484375F, 6.1e-5F,  0.3F};
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    expect_equal([&](Engine& engine) -> std::vector<Tensor> {
      std::vector<Tensor> each;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Tensor cache = engine.apply_one(
            CacheAppend{}, {poisoned(engine, {1, 1, 2, 1}, dtype), input_of<float>(engine, {1, 1, 1, 1}, {values[i]}),
                            input_of<std::int32_t>(engine, {1}, {0})});
        const Tensor read = engine.apply_one(CacheRead{.kv_head = 0, .length = 1}, {cache});
        each.push_back(engine.apply_one(Scale{.factor = 1}, {read}));
      }
      return each;
    });
  }
}

TEST_F(XlaDecodeOps, AppendQuantisesRowsWithTheirScales) {
  constexpr std::int64_t kDim = 48;
  std::vector<float> rows = some_values(3 * kDim, 4);
  std::fill(rows.begin() + kDim, rows.begin() + 2 * kDim, 0.0F);
  for (std::int64_t d = 2 * kDim; d < 3 * kDim; ++d) rows[static_cast<std::size_t>(d)] *= 1e-38F;
  expect_equal([&](Engine& engine) -> std::vector<Tensor> {
    const std::vector<Tensor> outputs = engine.apply(
        CacheAppend{}, {poisoned(engine, {1, 1, 3, kDim}, DType::int8), input_of<float>(engine, {1, 3, 1, kDim}, rows),
                        input_of<std::int32_t>(engine, {1}, {0}), poisoned(engine, {1, 1, 3}, DType::float32)});
    const Tensor ones = input_of<float>(engine, {1, 1, 3}, {1, 1, 1});
    return {outputs[1], engine.apply_one(CacheRead{.kv_head = 0, .length = 3}, {outputs[0], ones}),
            engine.apply_one(CacheRead{.kv_head = 0, .length = 3}, {outputs[0], outputs[1]})};
  });
}

TEST_F(XlaDecodeOps, ARowThatIsNotFiniteHasNoScale) {
  expect_equal([&](Engine& engine) -> std::vector<Tensor> {
    std::vector<Tensor> marks;
    for (const float bad : {kNaN, kInfinity, -kInfinity}) {
      const std::vector<Tensor> outputs = engine.apply(
          CacheAppend{}, {poisoned(engine, {1, 1, 1, 2}, DType::int8), input_of<float>(engine, {1, 1, 1, 2}, {bad, 1}),
                          input_of<std::int32_t>(engine, {1}, {0}), input_of<float>(engine, {1, 1, 1}, {0})});
      // NaN is not equal to anything: as a row of weight 0 it is masked, as one of weight NaN it counts and stays.
      marks.push_back(
          engine.apply_one(MaskRows{}, {engine.apply_one(Fill{.spec = {{1, 2}, DType::float32}, .value = 3}, {}),
                                        engine.apply_one(Reshape{{1}}, {outputs[1]})}));
    }
    return marks;
  });
}

/// Tokens come in pieces into an empty cache, each is attended to at once: all states.
std::vector<Tensor> append_and_attend(Engine& engine, DType dtype, std::int64_t batch, bool ring) {
  constexpr std::int64_t kHeads = 2, kDim = 16, kWindow = 6;
  const std::int64_t capacity = ring ? kWindow + 5 - 1 : 32;
  const auto every = [&](std::int64_t value) {
    const std::vector<std::int32_t> values(static_cast<std::size_t>(batch), static_cast<std::int32_t>(value));
    return input_of<std::int32_t>(engine, {batch}, values);
  };
  CacheTensors caches[2];
  for (CacheTensors& cache : caches) {
    cache.rows = poisoned(engine, {batch, kHeads, capacity, kDim}, dtype);
    if (dtype == DType::int8) cache.scales = poisoned(engine, {batch, kHeads, capacity}, DType::float32);
  }
  std::vector<Tensor> all;
  std::int64_t length = 0;
  for (const std::int64_t rows : {5, 4, 1, 3, 1}) {
    const std::int64_t elements = batch * rows * kHeads * kDim;
    double phase = static_cast<double>(length);
    for (CacheTensors& cache : caches) {
      phase += 0.5;
      std::vector<Tensor> inputs = {cache.rows,
                                    input_of<float>(engine, {batch, rows, kHeads, kDim}, some_values(elements, phase)),
                                    every(length)};
      if (cache.scales.defined()) inputs.push_back(cache.scales);
      const std::vector<Tensor> outputs = engine.apply(CacheAppend{.ring = ring}, inputs);
      cache = {outputs[0], outputs.size() > 1 ? outputs[1] : Tensor()};
    }
    length += rows;
    std::vector<Tensor> inputs = {
        input_of<float>(engine, {batch, rows, 2 * kHeads, kDim}, some_values(2 * elements, 7)), caches[0].rows,
        caches[1].rows, every(2), every(length)};
    if (dtype == DType::int8) append_to(inputs, {caches[0].scales, caches[1].scales});
    append_to(all, engine.apply(DecodeAttention{.scale = 0.3, .window = kWindow, .ring = ring}, inputs));
  }
  return all;
}

TEST_F(XlaDecodeOps, AppendingAndAttendingStepByStep) {
  for (const bool ring : {false, true}) {
    expect_equal([&](Engine& engine) { return append_and_attend(engine, DType::int8, 2, ring); });
    expect_equal([&](Engine& engine) { return append_and_attend(engine, DType::bfloat16, 1, ring); });
  }
}

}  // namespace
}  // namespace maxtext::testing
