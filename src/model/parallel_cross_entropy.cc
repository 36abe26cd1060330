#include "model/parallel_cross_entropy.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

/// A chunk of tokens whose statistics travel.
struct Chunk {
  std::int64_t first = 0;
  std::int64_t tokens = 0;
  Tensor logits;      ///< undefined without gradient
  Tensor statistics;  ///< [P, 3, tokens]
};

/// While a chunk's statistics travel, the next one's logits are computed, so that a device waits for its peers only
/// when it is a whole chunk ahead of them. So the logits of two chunks are alive. Each has as many tokens as a chunk of
/// the fused op, not half of them: for half of the vocabulary or less, both together take no more than the fused op's
/// for all of it, and half as many tokens make the products up to 1.4% slower (measured with E = 512) and the messages
/// twice as many. Where the bound in bytes decides, each chunk gets half of that. Without gradient logits are dropped
/// before the next ones are made.
class VocabularyParallelCrossEntropy {
 public:
  VocabularyParallelCrossEntropy(Engine& engine, const LinearCrossEntropy& loss, const std::vector<Tensor>& inputs,
                                 const Tensor& first_row)
      : engine_(engine),
        loss_(loss),
        hidden_(inputs[0]),
        weight_(inputs[1]),
        targets_(inputs[2]),
        target_weights_(inputs[3]),
        inverse_denominator_(inputs[4]),
        first_row_(first_row),
        group_size_(engine.mesh().size(kTensorAxes)),
        tokens_(inputs[2].elements()),
        chunk_(cross_entropy_chunk_tokens(loss.chunk_tokens, weight_.dim(0),
                                          dtype_size(accumulation_dtype(weight_.dtype())),
                                          loss.with_gradient ? 2 : 1)) {
    if (!loss.with_gradient) return;
    dweight_ = inputs[5];
    dhidden_ = engine_.apply_one(Fill{.spec = hidden_.spec()}, {});
  }

  std::vector<Tensor> run() {
    Chunk next = begin(0);
    while (next.tokens > 0) {
      Chunk chunk = std::exchange(next, {});
      const std::int64_t end = chunk.first + chunk.tokens;
      if (end < tokens_) next = begin(end);
      finish(std::move(chunk));
    }
    const Tensor nll = nll_.size() == 1 ? nll_[0] : engine_.apply(Concat{.axis = 0}, nll_)[0];
    std::vector<Tensor> outputs{sums_, engine_.apply_one(Reshape{targets_.shape()}, {nll})};
    if (loss_.with_gradient) outputs.insert(outputs.end(), {dhidden_, dweight_});
    return outputs;
  }

 private:
  /// Of a tensor with one element or one row per token, those of the chunk.
  Tensor part(const Tensor& x, const Chunk& chunk) const {
    const bool rows = x.shape().size() > targets_.shape().size();
    const std::int64_t width = rows ? x.shape().back() : 1;
    Shape shape{chunk.tokens};
    if (rows) shape.push_back(width);
    return engine_.apply_one(View{.first_element = chunk.first * width, .shape = shape}, {x});
  }

  Chunk begin(std::int64_t first) const {
    Chunk chunk{.first = first, .tokens = std::min(chunk_, tokens_ - first), .logits = {}, .statistics = {}};
    chunk.logits = engine_.apply_one(Linear{.wide_result = true}, {part(hidden_, chunk), weight_});
    if (loss_.softcap > 0) {
      chunk.logits = engine_.apply_one(SoftCap{.cap = loss_.softcap, .in_place = true}, {chunk.logits});
    }
    const Tensor mine = engine_.apply_one(LogitStatistics{}, {chunk.logits, part(targets_, chunk), first_row_});
    if (!loss_.with_gradient) chunk.logits = Tensor();
    chunk.statistics = engine_.apply_one(AllGather{.axes = kTensorAxes, .group_size = group_size_}, {mine});
    return chunk;
  }

  void finish(Chunk chunk) {
    const CrossEntropyFromStatistics op{.vocabulary = group_size_ * weight_.dim(0),
                                        .z_loss_multiplier = loss_.z_loss_multiplier,
                                        .softcap = loss_.softcap,
                                        .with_gradient = loss_.with_gradient};
    std::vector<Tensor> inputs{chunk.statistics, part(targets_, chunk), part(target_weights_, chunk)};
    if (loss_.with_gradient) {
      inputs.insert(inputs.end(), {std::exchange(chunk.logits, {}), inverse_denominator_, first_row_});
    }
    const std::vector<Tensor> outputs = engine_.apply(op, inputs);
    sums_ = sums_.defined() ? engine_.apply_one(Add{.in_place = true}, {sums_, outputs[0]}) : outputs[0];
    nll_.push_back(outputs[1]);
    if (loss_.with_gradient) add_gradients(chunk, rounded(outputs[2]));
  }

  /// In the dtype of hidden states, as the gradient's products want both operands.
  Tensor rounded(const Tensor& dlogits) const {
    if (dlogits.dtype() == hidden_.dtype()) return dlogits;
    return engine_.apply_one(Cast{hidden_.dtype()}, {dlogits});
  }

  void add_gradients(const Chunk& chunk, const Tensor& dlogits) {
    const bool accumulate = loss_.accumulate || chunk.first > 0;
    {
      // A row of zeros times NaN would be NaN in the gradient of every row of the weight.
      const Tensor hidden = engine_.apply_one(MaskRows{}, {part(hidden_, chunk), part(target_weights_, chunk)});
      dweight_ = engine_.apply_one(LinearBackwardWeight{.accumulate = accumulate}, {dlogits, hidden, dweight_});
    }
    engine_.apply_one(LinearBackwardInput{}, {dlogits, weight_, part(dhidden_, chunk)});
  }

  Engine& engine_;
  const LinearCrossEntropy& loss_;
  Tensor hidden_;
  Tensor weight_;
  Tensor targets_;
  Tensor target_weights_;
  Tensor inverse_denominator_;
  Tensor first_row_;
  int group_size_;
  std::int64_t tokens_;
  std::int64_t chunk_;
  Tensor sums_;
  std::vector<Tensor> nll_;
  Tensor dhidden_;
  Tensor dweight_;
};

}  // namespace

std::vector<Tensor> vocabulary_parallel_cross_entropy(Engine& engine, const LinearCrossEntropy& loss,
                                                      const std::vector<Tensor>& inputs, const Tensor& first_row) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(input.spec());
  loss.infer(specs);
  return VocabularyParallelCrossEntropy(engine, loss, inputs, first_row).run();
}

}  // namespace maxtext
