#include <algorithm>

#include "engines/xla/loss_sums.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// Values of N tokens; T is the accumulation dtype.
struct TokenLoss {
  XlaValue weight;   // [N]
  XlaValue lse;      // [N]
  XlaValue nll;      // [N], 0 where the weight is 0
  XlaValue softmax;  // [N, V]
  XlaValue target;   // [N, V], 1 at the target
};

XlaValue along_rows(StableHloWriter& writer, const XlaValue& per_token, const Shape& shape) {
  return writer.broadcast(per_token, shape, {0});
}

XlaValue scaled(StableHloWriter& writer, double factor, const XlaValue& x) {
  return writer.binary("multiply", writer.constant(x.spec, factor), x);
}

TokenLoss token_loss(StableHloWriter& writer, const XlaValue& logits, const XlaValue& targets, const XlaValue& weight,
                     const XlaValue& weighted) {
  const Shape& shape = logits.spec.shape;
  TokenLoss loss;
  loss.weight = weight;
  const XlaValue maximum = writer.reduce("maximum", logits, {1});
  const XlaValue exponentials =
      writer.unary("exponential", writer.binary("subtract", logits, along_rows(writer, maximum, shape)));
  const XlaValue sum = writer.reduce("add", exponentials, {1});
  loss.lse = writer.binary("add", writer.unary("log", sum), maximum);
  loss.softmax = writer.binary("divide", exponentials, along_rows(writer, sum, shape));
  const XlaValue is_target =
      writer.compare("EQ", writer.iota({shape, targets.spec.dtype}, 1), writer.broadcast(targets, shape, {0}));
  loss.target = writer.convert(is_target, logits.spec.dtype);
  const XlaValue target_logit = writer.reduce("add", writer.binary("multiply", loss.target, logits), {1});
  loss.nll =
      writer.select(weighted, writer.binary("subtract", loss.lse, target_logit), writer.constant(weight.spec, 0));
  return loss;
}

/// The gradient of the logits: ((1 + 2·c·lse)·softmax − target)·weight·inverse_denominator.
XlaValue logits_gradient(StableHloWriter& writer, const TokenLoss& loss, const XlaValue& inverse, double z_multiplier) {
  const Shape& shape = loss.softmax.spec.shape;
  const XlaValue one = writer.constant(loss.lse.spec, 1);
  const XlaValue growth = writer.binary("add", one, scaled(writer, 2 * z_multiplier, loss.lse));
  const XlaValue difference = writer.binary(
      "subtract", writer.binary("multiply", loss.softmax, along_rows(writer, growth, shape)), loss.target);
  const XlaValue factor =
      writer.binary("multiply", loss.weight,
                    writer.broadcast(writer.convert(inverse, loss.weight.spec.dtype), loss.weight.spec.shape, {}));
  return writer.binary("multiply", difference, along_rows(writer, factor, shape));
}

/// x [N, ...] with zeros up to `rows` rows.
XlaValue padded(StableHloWriter& writer, const XlaValue& x, std::int64_t rows) {
  TensorSpec missing = x.spec;
  missing.shape[0] = rows - x.spec.shape[0];
  if (missing.shape[0] == 0) return x;
  const std::vector<XlaValue> parts = {x, writer.constant(missing, 0)};
  return writer.concatenate(parts, 0);
}

/// Tokens in chunks, the logits of one chunk alive at a time.
struct Chunks {
  std::int64_t tokens;
  std::int64_t count;

  std::int64_t padded_tokens() const { return tokens * count; }
};

/// As many chunks as the bound needs, of equal size: fewer than `count` tokens are padding.
Chunks chunks_of(const LinearCrossEntropy& op, std::int64_t tokens, std::int64_t vocabulary, DType dtype) {
  const std::int64_t most = cross_entropy_chunk_tokens(op.chunk_tokens, vocabulary, dtype_size(dtype));
  const std::int64_t count = std::max<std::int64_t>(1, (tokens + most - 1) / most);
  return {(tokens + count - 1) / count, count};
}

class FusedCrossEntropy {
 public:
  FusedCrossEntropy(XlaContext& context, const LinearCrossEntropy& op, XlaInputs inputs, XlaOutputs outputs)
      : context_(context),
        writer_(context.writer),
        op_(op),
        outputs_(outputs),
        tokens_(row_count(inputs[0].shape())),
        width_(inputs[0].shape().back()),
        dtype_(accumulation_dtype(inputs[0].dtype())),
        chunks_(chunks_of(op, tokens_, inputs[1].dim(0), dtype_)) {
    const auto rows = [&](const Tensor& tensor, const Shape& shape) {
      return padded(writer_, writer_.reshape(context.load(tensor), shape), chunks_.padded_tokens());
    };
    hidden_ = rows(inputs[0], {tokens_, width_});
    projection_ = context.load(inputs[1]);
    targets_ = rows(inputs[2], {tokens_});
    weights_ = rows(inputs[3], {tokens_});
    if (!op.with_gradient) return;
    inverse_ = context.load(inputs[4]);
    const XlaValue destination = context.load(inputs[5]);
    dweight_ = op.accumulate ? destination : writer_.constant(destination.spec, 0);
  }

  void run() {
    std::vector<XlaValue> carried = {writer_.constant({{2}, DType::float64}, 0), writer_.constant(weights_.spec, 0)};
    if (op_.with_gradient) carried.insert(carried.end(), {writer_.constant(hidden_.spec, 0), dweight_});
    const XlaValue end = integer(chunks_.count);
    const std::vector<XlaValue> last =
        writer_.for_loop(integer(0), end, carried, [&](const XlaValue& index, std::span<const XlaValue> values) {
          return chunk(writer_.binary("multiply", index, integer(chunks_.tokens)), values);
        });
    context_.store(outputs_[0], last[0]);
    store_rows(outputs_[1], last[1]);
    if (!op_.with_gradient) return;
    store_rows(outputs_[2], last[2]);
    context_.store(outputs_[3], last[3]);
  }

 private:
  XlaValue integer(std::int64_t value) const {
    return writer_.constant({{}, DType::int32}, static_cast<double>(value));
  }

  /// The chunk's rows of x, of which the first is `first`.
  XlaValue rows_of(const XlaValue& x, const XlaValue& first) const {
    Shape sizes = x.spec.shape;
    sizes[0] = chunks_.tokens;
    return writer_.dynamic_slice(x, starts(x, first), sizes);
  }

  std::vector<XlaValue> starts(const XlaValue& x, const XlaValue& first) const {
    std::vector<XlaValue> result = {first};
    while (result.size() < x.spec.shape.size()) result.push_back(integer(0));
    return result;
  }

  /// Without the padding.
  void store_rows(const Tensor& output, const XlaValue& rows) {
    XlaValue kept = rows;
    if (tokens_ < rows.spec.shape[0]) {
      Shape limits = rows.spec.shape;
      limits[0] = tokens_;
      Shape begin = limits;
      std::fill(begin.begin(), begin.end(), 0);
      kept = writer_.slice(rows, begin, limits);
    }
    context_.store(output, writer_.reshape(kept, output.shape()));
  }

  /// The loop's values behind the chunk that begins at token `first`.
  std::vector<XlaValue> chunk(const XlaValue& first, std::span<const XlaValue> values) const {
    const XlaValue weight = writer_.convert(rows_of(weights_, first), dtype_);
    const XlaValue weighted = writer_.compare("NE", weight, writer_.constant(weight.spec, 0));
    // What a token of weight 0 has in its hidden state must not reach anything, NaN included.
    XlaValue hidden = rows_of(hidden_, first);
    hidden = writer_.select(along_rows(writer_, weighted, hidden.spec.shape), hidden, writer_.constant(hidden.spec, 0));
    XlaValue logits = writer_.dot(hidden, projection_, {.lhs_contracting = {1}, .rhs_contracting = {1}}, dtype_);
    XlaValue tangent;  // of a softcap
    if (op_.softcap > 0) {
      const XlaValue cap = writer_.constant(logits.spec, op_.softcap);
      tangent = writer_.unary("tanh", writer_.binary("divide", logits, cap));
      logits = writer_.binary("multiply", cap, tangent);
    }
    const TokenLoss loss = token_loss(writer_, logits, rows_of(targets_, first), weight, weighted);
    const XlaValue sums = weighted_loss_sums(writer_, loss.weight, loss.nll, loss.lse, op_.z_loss_multiplier);
    const XlaValue nll = writer_.convert(loss.nll, DType::float32);
    std::vector<XlaValue> next = {writer_.binary("add", values[0], sums),
                                  writer_.dynamic_update_slice(values[1], nll, starts(nll, first))};
    if (op_.with_gradient) append_gradients(dlogits(loss, tangent), hidden, first, values, next);
    return next;
  }

  /// Rounded to the dtype of hidden states and weights, as the gradient's products want them.
  XlaValue dlogits(const TokenLoss& loss, const XlaValue& tangent) const {
    XlaValue gradient = logits_gradient(writer_, loss, inverse_, op_.z_loss_multiplier);
    if (tangent.defined()) {
      const XlaValue one = writer_.constant(tangent.spec, 1);
      const XlaValue slope = writer_.binary("subtract", one, writer_.binary("multiply", tangent, tangent));
      gradient = writer_.binary("multiply", gradient, slope);
    }
    return writer_.convert(gradient, hidden_.spec.dtype);
  }

  void append_gradients(const XlaValue& gradient, const XlaValue& hidden, const XlaValue& first,
                        std::span<const XlaValue> values, std::vector<XlaValue>& next) const {
    const XlaValue dhidden =
        writer_.convert(writer_.dot(gradient, projection_, {.lhs_contracting = {1}, .rhs_contracting = {0}}, dtype_),
                        hidden.spec.dtype);
    next.push_back(writer_.dynamic_update_slice(values[2], dhidden, starts(dhidden, first)));
    const XlaValue dweight = writer_.dot(gradient, hidden, {.lhs_contracting = {0}, .rhs_contracting = {0}}, dtype_);
    next.push_back(writer_.binary("add", values[3], dweight));
  }

  XlaContext& context_;
  StableHloWriter& writer_;
  const LinearCrossEntropy& op_;
  XlaOutputs outputs_;
  std::int64_t tokens_;
  std::int64_t width_;
  DType dtype_;  // of logits and sums
  Chunks chunks_;
  XlaValue hidden_;      // [chunks, E], in the dtype of activations
  XlaValue projection_;  // [V, E]
  XlaValue targets_;
  XlaValue weights_;
  XlaValue inverse_;
  XlaValue dweight_;  // before the first chunk
};

}  // namespace

/// One loop over chunks of tokens, whose carried values are the sums, nll, dhidden and the weight's gradient.
void trace(XlaContext& context, const LinearCrossEntropy& op, XlaInputs inputs, XlaOutputs outputs) {
  FusedCrossEntropy(context, op, inputs, outputs).run();
}

}  // namespace maxtext
