#include "ops/op.h"

namespace maxtext {
namespace {

template <typename T>
concept CountsFlops = requires(const T& op, InputSpecs inputs) {
  op.flops(inputs);
};

}  // namespace

std::string_view op_name(const Op& op) {
  return std::visit([](const auto& concrete) { return std::string_view(concrete.name); }, op);
}

std::vector<OutputSpec> infer(const Op& op, InputSpecs inputs) {
  return std::visit([&](const auto& concrete) { return concrete.infer(inputs); }, op);
}

double flops(const Op& op, InputSpecs inputs) {
  return std::visit(
      [&]<typename T>(const T& concrete) {
        if constexpr (CountsFlops<T>) return concrete.flops(inputs);
        return 0.0;
      },
      op);
}

}  // namespace maxtext
