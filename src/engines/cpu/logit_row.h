// One token's row of logits: what the cross-entropy of a whole vocabulary and that of its parts share.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "engines/cpu/vector_loops.h"

namespace maxtext {

struct TokenLoss {
  double nll = 0;
  double z = 0;
};

inline TokenLoss token_loss(double logsumexp, double target_logit, double z_loss_multiplier) {
  return {.nll = logsumexp - target_logit, .z = z_loss_multiplier * logsumexp * logsumexp};
}

/// The gradient of one token's weighted loss with respect to its logits before the softcap.
template <typename T>
class LogitGradient {
 public:
  struct Loss {
    double z_loss_multiplier;
    double softcap;  ///< 0: none
  };

  /// `per_nll`: the token's weight · inverse_denominator. The token's softmax is exp(logits − top) / sum.
  LogitGradient(double per_nll, const Loss& loss, T top, double sum, double logsumexp)
      : per_nll_(per_nll),
        softcap_(loss.softcap),
        top_(top),
        factor_(static_cast<T>(per_nll * (1 + 2 * loss.z_loss_multiplier * logsumexp) / sum)) {}

  /// Without the target's −1. Behind a softcap both exp and the cap's slope need the logit itself, so exponentials are
  /// formed once more rather than kept in a second row.
  void from_logits(std::int64_t length, T* row) const {
    const auto& loops = vector_loops<T>();
    constexpr std::int64_t kBlock = 1024;  // stays in L1 from one loop to the next
    for (std::int64_t begin = 0; begin < length; begin += kBlock) {
      const std::int64_t count = std::min(kBlock, length - begin);
      T* const logits = row + begin;
      if (softcap_ == 0) {
        loops.exponentials(count, top_, logits);
        loops.scale(count, factor_, logits, logits);
      } else {
        std::array<T, kBlock> copy;
        std::copy_n(logits, count, copy.data());
        loops.exponentials(count, top_, logits);
        loops.soft_cap_backward(count, static_cast<T>(softcap_), factor_, logits, copy.data(), logits);
      }
    }
  }

  /// The same for exp(logits − top) without a softcap.
  void from_exponentials(std::int64_t length, T* row) const { vector_loops<T>().scale(length, factor_, row, row); }

  void subtract_target(double target_logit, T& gradient) const {
    const double tangent = softcap_ == 0 ? 0 : target_logit / softcap_;
    gradient -= static_cast<T>(per_nll_ * (1 - tangent * tangent));
  }

 private:
  double per_nll_;
  double softcap_;
  T top_;
  T factor_;
};

}  // namespace maxtext
