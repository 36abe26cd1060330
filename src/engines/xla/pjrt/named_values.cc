#include "engines/xla/pjrt/named_values.h"

namespace maxtext::pjrt {
namespace {

/// Fills in the kind, the value and its size.
struct ValueWriter {
  PJRT_NamedValue& target;

  void operator()(std::int64_t value) const {
    target.type = PJRT_NamedValue_kInt64;
    target.int64_value = value;
  }
  void operator()(bool value) const {
    target.type = PJRT_NamedValue_kBool;
    target.bool_value = value;
  }
  void operator()(float value) const {
    target.type = PJRT_NamedValue_kFloat;
    target.float_value = value;
  }
  void operator()(const std::string& value) const {
    target.type = PJRT_NamedValue_kString;
    target.string_value = value.data();
    target.value_size = value.size();
  }
  void operator()(const std::vector<std::int64_t>& value) const {
    target.type = PJRT_NamedValue_kInt64List;
    target.int64_array_value = value.data();
    target.value_size = value.size();
  }
};

}  // namespace

std::vector<PJRT_NamedValue> named_values(const PjrtOptions& options) {
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, option] : options) {
    PJRT_NamedValue& value = values.emplace_back();
    value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    value.name = name.data();
    value.name_size = name.size();
    value.value_size = 1;
    std::visit(ValueWriter{value}, option);
  }
  return values;
}

std::vector<std::int64_t> integers_of(std::span<const PJRT_NamedValue> attributes, std::string_view name) {
  for (const PJRT_NamedValue& attribute : attributes) {
    if (std::string_view(attribute.name, attribute.name_size) != name) continue;
    if (attribute.type == PJRT_NamedValue_kInt64) return {attribute.int64_value};
    if (attribute.type == PJRT_NamedValue_kInt64List) {
      return {attribute.int64_array_value, attribute.int64_array_value + attribute.value_size};
    }
  }
  return {};
}

}  // namespace maxtext::pjrt
