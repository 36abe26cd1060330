// Fused output projection and cross-entropy. Tokens that count are gathered into chunks; a chunk's logits become its
// dlogits in place, so memory is one chunk of logits. Cost: three products of 2·tokens·E·V (one without gradient); the
// softmax is 0.3% of a training step. Chunks below about 1024 tokens slow the gradient's products.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engines/cpu/gemm.h"
#include "engines/cpu/logit_row.h"
#include "engines/cpu/ranges.h"
#include "engines/cpu/run.h"
#include "engines/cpu/vector_loops.h"

namespace maxtext {
namespace {

template <typename T>
class FusedCrossEntropy {
 public:
  FusedCrossEntropy(CpuContext& context, const LinearCrossEntropy& op, Inputs inputs, Outputs outputs)
      : context_(context),
        op_(op),
        inputs_(inputs),
        outputs_(outputs),
        width_(inputs[1].dim(1)),
        vocabulary_(inputs[1].dim(0)),
        chunk_(cross_entropy_chunk_tokens(op.chunk_tokens, vocabulary_, sizeof(T))),
        targets_(data<std::int32_t>(inputs[2])),
        weights_(data<float>(inputs[3])) {}

  void run() {
    collect_counting_tokens();
    std::fill_n(data<float>(outputs_[1]), outputs_[1].elements(), 0.0F);
    if (op_.with_gradient) zero(outputs_[2]);
    if (op_.with_gradient && !op_.accumulate) zero(outputs_[3]);
    const auto counting = static_cast<std::int64_t>(tokens_.size());
    chunk_ = std::min(chunk_, counting);
    logits_ = scratch<T>(context_, chunk_ * vocabulary_);
    double* sums = data<double>(outputs_[0]);
    sums[0] = sums[1] = 0;
    for (std::int64_t begin = 0; begin < counting; begin += chunk_) {
      run_chunk({tokens_.data() + begin, static_cast<std::size_t>(std::min(chunk_, counting - begin))}, sums);
    }
  }

 private:
  using Tokens = std::span<const std::int32_t>;

  /// By the team: the gradient of a large vocabulary is gigabytes.
  static void zero(Tensor& tensor) {
    T* const values = data<T>(tensor);
    for_ranges(tensor.elements(),
               [values](std::int64_t begin, std::int64_t n) { std::fill_n(values + begin, n, T{0}); });
  }

  void collect_counting_tokens() {
    const std::int64_t count = inputs_[2].elements();
    for (std::int64_t i = 0; i < count; ++i) {
      if (weights_[i] == 0) continue;
      if (targets_[i] < 0 || targets_[i] >= vocabulary_) {
        fail("{}: target {} at {} is not within [0, {})", op_.name, targets_[i], i, vocabulary_);
      }
      tokens_.push_back(static_cast<std::int32_t>(i));
    }
  }

  void run_chunk(Tokens tokens, double* sums) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const bool contiguous = tokens.back() - tokens.front() + 1 == rows;
    std::shared_ptr<T> gathered;
    const T* hidden = data<T>(inputs_[0]) + tokens.front() * width_;
    if (!contiguous) {
      gathered = scratch<T>(context_, rows * width_);
      gather(tokens, gathered.get());
      hidden = gathered.get();
    }
    const T* weight = data<T>(inputs_[1]);
    multiply_transposed(context_, rows, vocabulary_, width_, hidden, weight, logits_.get());
    score(tokens, sums);
    if (!op_.with_gradient) return;
    transposed_multiply(context_, vocabulary_, width_, rows, logits_.get(), hidden, true, data<T>(outputs_[3]));
    T* dhidden = contiguous ? data<T>(outputs_[2]) + tokens.front() * width_ : gathered.get();
    multiply(context_, rows, width_, vocabulary_, logits_.get(), weight, false, dhidden);
    if (!contiguous) scatter(tokens, dhidden);
  }

  void gather(Tokens tokens, T* to) const {
    const T* hidden = data<T>(inputs_[0]);
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::copy_n(hidden + tokens[i] * width_, width_, to + static_cast<std::int64_t>(i) * width_);
    }
  }

  void scatter(Tokens tokens, const T* from) const {
    T* dhidden = data<T>(outputs_[2]);
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::copy_n(from + static_cast<std::int64_t>(i) * width_, width_, dhidden + tokens[i] * width_);
    }
  }

  /// Losses of the chunk, and its logits turned into dlogits.
  void score(Tokens tokens, double* sums) {
    std::vector<TokenLoss> losses(tokens.size());
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      losses[i] = score_token(tokens[i], logits_.get() + static_cast<std::int64_t>(i) * vocabulary_);
    }
    float* nll = data<float>(outputs_[1]);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const double weight = weights_[tokens[i]];
      nll[tokens[i]] = static_cast<float>(losses[i].nll);
      sums[0] += weight * losses[i].nll;
      sums[1] += weight * losses[i].z;
    }
  }

  TokenLoss score_token(std::int32_t token, T* row) const {
    const auto& loops = vector_loops<T>();
    const bool capped = op_.softcap > 0;
    if (capped) loops.soft_cap(vocabulary_, static_cast<T>(op_.softcap), row, row);
    const std::int32_t target = targets_[token];
    const double target_logit = row[target];
    const T top = loops.maximum(vocabulary_, row);
    const double sum =
        capped ? loops.sum_of_exponentials(vocabulary_, top, row) : loops.exponentials(vocabulary_, top, row);
    const double logsumexp = static_cast<double>(top) + std::log(sum);
    if (op_.with_gradient) {
      const double per_nll = static_cast<double>(weights_[token]) * static_cast<double>(*data<float>(inputs_[4]));
      const LogitGradient<T> gradient(per_nll, {op_.z_loss_multiplier, op_.softcap}, top, sum, logsumexp);
      if (capped) {
        gradient.from_logits(vocabulary_, row);
      } else {
        gradient.from_exponentials(vocabulary_, row);
      }
      gradient.subtract_target(target_logit, row[target]);
    }
    return token_loss(logsumexp, target_logit, op_.z_loss_multiplier);
  }

  CpuContext& context_;
  const LinearCrossEntropy& op_;
  Inputs inputs_;
  Outputs outputs_;
  std::int64_t width_;
  std::int64_t vocabulary_;
  std::int64_t chunk_;
  const std::int32_t* targets_;
  const float* weights_;
  std::vector<std::int32_t> tokens_;
  std::shared_ptr<T> logits_;
};

}  // namespace

void run(CpuContext& context, const LinearCrossEntropy& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(),
            [&]<typename T>(T) { FusedCrossEntropy<T>(context, op, inputs, outputs).run(); });
}

OpScratch op_scratch(const LinearCrossEntropy& op, InputSpecs inputs, int /*threads*/) {
  const std::int64_t vocabulary = inputs[1].shape[0];
  const std::int64_t width = inputs[1].shape[1];
  const DType dtype = inputs[0].dtype;
  const std::int64_t size = dtype_size(dtype);
  // As if every token counted, and yet a chunk had to be gathered and the last one were short.
  const std::int64_t tokens = element_count(inputs[2].shape);
  const std::int64_t chunk = std::min(cross_entropy_chunk_tokens(op.chunk_tokens, vocabulary, size), tokens);
  OpScratch scratch{0, multiply_transposed_scratch(std::min<std::int64_t>(chunk, 1), vocabulary, width, dtype)};
  scratch.pool_blocks.insert(scratch.pool_blocks.begin(), {chunk * vocabulary * size, chunk * width * size});
  return scratch;
}

}  // namespace maxtext
