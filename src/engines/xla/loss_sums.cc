#include "engines/xla/loss_sums.h"

namespace maxtext {

XlaValue weighted_loss_sums(StableHloWriter& writer, const XlaValue& weight, const XlaValue& nll, const XlaValue& lse,
                            double z_multiplier) {
  const XlaValue z =
      writer.binary("multiply", writer.constant(lse.spec, z_multiplier), writer.binary("multiply", lse, lse));
  std::vector<XlaValue> sums;
  for (const XlaValue& x : {nll, z}) {
    sums.push_back(writer.reshape(writer.reduce("add", writer.binary("multiply", weight, x), {0}), {1}));
  }
  return writer.convert(writer.concatenate(sums, 0), DType::float64);
}

}  // namespace maxtext
