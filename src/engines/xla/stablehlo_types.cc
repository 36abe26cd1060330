#include "engines/xla/stablehlo_types.h"

#include <cmath>

#include "base/error.h"

namespace maxtext {
namespace {

struct SpecialPatterns {
  std::string_view nan;
  std::string_view infinity;
  std::string_view minus_infinity;
};

SpecialPatterns special_patterns(DType floating) {
  switch (floating) {
    case DType::float64:
      return {"0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"};
    case DType::bfloat16:
      return {"0x7FC0", "0x7F80", "0xFF80"};
    case DType::float16:
      return {"0x7E00", "0x7C00", "0xFC00"};
    default:
      return {"0x7FC00000", "0x7F800000", "0xFF800000"};
  }
}

}  // namespace

std::string_view element_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "f32";
    case DType::float64:
      return "f64";
    case DType::bfloat16:
      return "bf16";
    case DType::float16:
      return "f16";
    case DType::int32:
      return "i32";
    case DType::int64:
      return "i64";
    case DType::uint8:
      return "ui8";
    case DType::boolean:
      return "i1";
    case DType::int8:
      return "i8";
  }
  fail("StableHLO has no spelling for dtype {}", dtype_name(dtype));
}

std::string type_text(const TensorSpec& spec) {
  std::string text = "tensor<";
  for (const std::int64_t size : spec.shape) text += fmt::format("{}x", size);
  return text + std::string(element_type(spec.dtype)) + ">";
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

std::string literal(double value, DType dtype) {
  if (!is_floating(dtype)) {
    // NaN differs from itself; an infinity is no fraction.
    if (value != std::trunc(value) || std::isinf(value))
      fail("{} is not a literal of dtype {}", value, dtype_name(dtype));
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  if (std::isfinite(value)) return fmt::format("{:.17e}", value);
  const SpecialPatterns patterns = special_patterns(dtype);
  return std::string(std::isnan(value) ? patterns.nan : (value > 0 ? patterns.infinity : patterns.minus_infinity));
}

std::string list_text(std::span<const std::int64_t> values) {
  return fmt::format("[{}]", fmt::join(values.begin(), values.end(), ", "));
}

std::string replica_groups_text(const std::vector<std::vector<int>>& groups) {
  if (groups.empty()) fail("a collective needs at least one replica group");
  std::string rows;
  for (const std::vector<int>& group : groups) {
    if (group.size() != groups.front().size()) fail("replica groups must have one size");
    rows += fmt::format("{}[{}]", rows.empty() ? "" : ", ", fmt::join(group, ", "));
  }
  return fmt::format("dense<[{}]> : tensor<{}x{}xi64>", rows, groups.size(), groups.front().size());
}

}  // namespace maxtext
