#include "attention/cached_attention.h"

#include <memory>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr AxisSet kContext = Axis::context;

/// o with what a merge needs. A normalised output with its logsumexp is the state l = 1, m = logsumexp.
struct State {
  Tensor o;
  Tensor l;
  Tensor m;
};

/// The states of all devices of the group as one output.
Tensor merge_over_devices(Engine& engine, int group_size, const State& state) {
  const std::vector<Tensor> states =
      engine.apply(AllGather{.axes = kContext, .group_size = group_size}, {state.o, state.l, state.m});
  return engine.apply(MergeStates{.normalize = true}, states)[0];
}

void append_one(Engine& engine, const CacheAppend& op, Tensor& cache, Tensor& scales, const Tensor& rows,
                const Tensor& position, const Tensor& count) {
  std::vector<Tensor> inputs = {cache, rows, position};
  if (scales.defined()) inputs.push_back(scales);
  if (op.has_rows) inputs.push_back(count);
  std::vector<Tensor> outputs = engine.apply(op, inputs);
  cache = std::move(outputs[0]);
  if (scales.defined()) scales = std::move(outputs[1]);
}

/// `rows` [1] may be undefined: all are appended.
void append(Engine& engine, LayerCache& cache, const Tensor& k, const Tensor& v, const Tensor& position,
            const Tensor& rows) {
  const CacheAppend op{.ring = cache.ring, .has_rows = rows.defined()};
  append_one(engine, op, cache.keys, cache.key_scales, k, position, rows);
  append_one(engine, op, cache.values, cache.value_scales, v, position, rows);
}

/// (q, k, v) of a pass -> o; appends k and v to the cache on the way.
class CacheFunction : public Function {
 public:
  PullbackNeeds needs() const override { return {}; }
  void pullback(Pullback& /*context*/) const override { fail("attention over a KV cache has no derivative"); }
  std::vector<TensorSpec> infer(InputSpecs inputs) const override { return {inputs[0]}; }

 protected:
  CacheFunction(CachedAttention::FindCache find_cache, const AttentionScores& scores)
      : find_cache_(std::move(find_cache)), scores_(scores) {}

  CachedAttention::FindCache find_cache_;
  AttentionScores scores_;
};

class DecodeFunction final : public CacheFunction {
 public:
  DecodeFunction(CachedAttention::FindCache find_cache, const DecodeStep& step, const AttentionScores& scores)
      : CacheFunction(std::move(find_cache), scores), step_(step) {}

  std::string_view name() const override { return "decode_attention"; }

  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    LayerCache& cache = find_cache_();
    append(engine, cache, inputs[1], inputs[2], step_.position, Tensor());
    std::vector<Tensor> arguments = {inputs[0], cache.keys, cache.values, step_.start_idx, step_.kv_seq_len};
    if (cache.key_scales.defined()) {
      arguments.push_back(cache.key_scales);
      arguments.push_back(cache.value_scales);
    }
    const DecodeAttention op{.scale = scores_.scale,
                             .window = cache.window,
                             .softcap = scores_.softcap,
                             .ring = cache.ring,
                             .normalize = cache.group_size == 1,
                             .batch_invariant = step_.batch_invariant};
    std::vector<Tensor> outputs = engine.apply(op, arguments);
    if (cache.group_size == 1) return {std::move(outputs[0])};
    return {merge_over_devices(engine, cache.group_size, {outputs[0], outputs[1], outputs[2]})};
  }

 private:
  const DecodeStep& step_;
};

class PrefillFunction final : public CacheFunction {
 public:
  PrefillFunction(CachedAttention::FindCache find_cache, const PrefillStep& step, const AttentionScores& scores)
      : CacheFunction(std::move(find_cache), scores), step_(step) {}

  std::string_view name() const override { return "prefill_attention"; }

  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    LayerCache& cache = find_cache_();
    const Tensor& q = inputs[0];
    if (!cache.ring) append(engine, cache, inputs[1], inputs[2], step_.position, step_.rows);
    const std::int64_t kv_heads = cache.keys.dim(1);
    std::vector<Tensor> state;  // o and logsumexp, once the first head has made them
    for (std::int64_t head = 0; head < kv_heads; ++head) {
      const AttentionForward op{.scale = scores_.scale,
                                .softcap = scores_.softcap,
                                .kv_heads = kv_heads,
                                .kv_head_begin = head,
                                .area = step_.area};
      std::vector<Tensor> arguments = {q,
                                       keys(engine, cache.ring, cache.keys, cache.key_scales, inputs[1], head),
                                       keys(engine, cache.ring, cache.values, cache.value_scales, inputs[2], head),
                                       step_.slots,
                                       step_.key_begin,
                                       step_.key_end};
      arguments.insert(arguments.end(), state.begin(), state.end());
      state = engine.apply(op, arguments);
    }
    if (cache.ring) append(engine, cache, inputs[1], inputs[2], step_.position, step_.rows);
    if (cache.group_size == 1) return {state[0]};
    const Tensor one = engine.apply_one(Fill{.spec = state[1].spec(), .value = 1}, {});
    return {merge_over_devices(engine, cache.group_size, {state[0], one, state[1]})};
  }

 private:
  /// [1, 1, N, 1, D]: one head's keys (or values), `chunk` [1, T, kv_heads, D] behind them in a ring.
  Tensor keys(Engine& engine, bool ring, const Tensor& cache, const Tensor& scales, const Tensor& chunk,
              std::int64_t head) const {
    const std::int64_t tokens = chunk.dim(1);
    const std::int64_t length = ring ? cache.dim(2) : step_.slots.dim(1);
    const CacheRead read{.kv_head = head, .length = length};
    Tensor old = scales.defined() ? engine.apply_one(read, {cache, scales}) : engine.apply_one(read, {cache});
    if (!ring) return old;
    const Tensor own = engine.apply_one(Slice{.axis = 2, .start = head, .length = 1}, {chunk});
    const Tensor own_rows = engine.apply_one(Reshape{.shape = {1, 1, tokens, 1, chunk.dim(3)}}, {own});
    return engine.apply_one(Concat{.axis = 2}, {old, own_rows});
  }

  const PrefillStep& step_;
};

Tensor sequence_of(const Tensor& batch, std::int64_t b) {
  if (!batch.defined()) return {};
  Shape shape = batch.shape();
  shape[0] = 1;
  return batch.view(b * element_count(shape), shape);
}

}  // namespace

LayerCache LayerCache::sequence(std::int64_t b) const {
  LayerCache one = *this;
  one.keys = sequence_of(keys, b);
  one.values = sequence_of(values, b);
  one.key_scales = sequence_of(key_scales, b);
  one.value_scales = sequence_of(value_scales, b);
  return one;
}

void CachedAttention::begin(Variable k, Variable v) {
  k_ = k;
  v_ = v;
}

Variable CachedAttention::attend(Variable q, const AttentionScores& scores) {
  std::shared_ptr<const Function> function;
  if (decode_ != nullptr) {
    function = std::make_shared<DecodeFunction>(find_cache_, *decode_, scores);
  } else {
    function = std::make_shared<PrefillFunction>(find_cache_, *prefill_, scores);
  }
  return q.graph().apply(function, {q, k_, v_}, "context")[0];
}

}  // namespace maxtext
