#include "engines/cpu/scratch_bytes.h"

#include "engines/cpu/run.h"

namespace maxtext {
namespace {

template <typename T>
concept TakesScratch = requires(const T& op, InputSpecs inputs, int threads) {
  op_scratch(op, inputs, threads);
};

}  // namespace

OpScratch scratch_bytes(const Op& op, InputSpecs inputs, int threads) {
  return std::visit(
      [&]<typename T>(const T& concrete) -> OpScratch {
        if constexpr (TakesScratch<T>) return op_scratch(concrete, inputs, threads);
        return {};
      },
      op);
}

}  // namespace maxtext
