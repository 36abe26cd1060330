// Matrix products in StableHLO text.
#include <algorithm>

#include "base/error.h"
#include "engines/xla/stablehlo_writer.h"

namespace maxtext {
namespace {

/// Pairs of dimensions must exist and agree in size.
bool pairs_fit(const XlaValue& lhs, const XlaValue& rhs, const std::vector<std::int64_t>& left,
               const std::vector<std::int64_t>& right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] < 0 || left[i] >= std::ssize(lhs.spec.shape) || right[i] < 0 ||
        right[i] >= std::ssize(rhs.spec.shape)) {
      return false;
    }
    if (lhs.spec.shape[static_cast<std::size_t>(left[i])] != rhs.spec.shape[static_cast<std::size_t>(right[i])]) {
      return false;
    }
  }
  return true;
}

void append_free(const XlaValue& x, const std::vector<std::int64_t>& batch,
                 const std::vector<std::int64_t>& contracting, Shape& result) {
  for (std::int64_t i = 0; i < std::ssize(x.spec.shape); ++i) {
    const bool free =
        std::count(batch.begin(), batch.end(), i) == 0 && std::count(contracting.begin(), contracting.end(), i) == 0;
    if (free) result.push_back(x.spec.shape[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

XlaValue StableHloWriter::dot(const XlaValue& lhs, const XlaValue& rhs, const DotDimensions& d,
                              std::optional<DType> result_dtype) {
  if (lhs.spec.dtype != rhs.spec.dtype || !pairs_fit(lhs, rhs, d.lhs_batch, d.rhs_batch) ||
      !pairs_fit(lhs, rhs, d.lhs_contracting, d.rhs_contracting)) {
    fail("StableHLO dot_general({}, {}): batching {} x {} and contracting {} x {} do not fit", to_string(lhs.spec),
         to_string(rhs.spec), list_text(d.lhs_batch), list_text(d.rhs_batch), list_text(d.lhs_contracting),
         list_text(d.rhs_contracting));
  }
  TensorSpec result{{}, result_dtype.value_or(lhs.spec.dtype)};
  for (const std::int64_t i : d.lhs_batch) result.shape.push_back(lhs.spec.shape[static_cast<std::size_t>(i)]);
  append_free(lhs, d.lhs_batch, d.lhs_contracting, result.shape);
  append_free(rhs, d.rhs_batch, d.rhs_contracting, result.shape);
  std::string batching;
  if (!d.lhs_batch.empty()) {
    batching = fmt::format("batching_dims = {} x {}, ", list_text(d.lhs_batch), list_text(d.rhs_batch));
  }
  const bool exact = lhs.spec.dtype == DType::float32 || lhs.spec.dtype == DType::float64;
  const std::string_view precision = exact ? "HIGHEST" : "DEFAULT";
  return emit(result,
              fmt::format("stablehlo.dot_general {}, {}, {}contracting_dims = {} x {}, precision = [{}, {}] : "
                          "({}, {}) -> {}",
                          lhs.name, rhs.name, batching, list_text(d.lhs_contracting), list_text(d.rhs_contracting),
                          precision, precision, type_text(lhs.spec), type_text(rhs.spec), type_text(result)));
}

}  // namespace maxtext
