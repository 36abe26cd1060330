#include "model/hf_section.h"

namespace maxtext {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

}  // namespace

const nlohmann::json* HfSection::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool HfSection::is_null(const char* key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

std::optional<std::int64_t> HfSection::size(const char* key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number_integer() || value->get<double>() < 1 ||
      value->get<double>() > static_cast<double>(kLargestSize)) {
    reject(key, "a positive integer");
  }
  return value->get<std::int64_t>();
}

std::int64_t HfSection::required_size(const char* key) const {
  const std::optional<std::int64_t> value = size(key);
  if (!value) fail_config("{}: {} is missing", name_, key);
  return *value;
}

std::optional<double> HfSection::positive(const char* key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    reject(key, "a positive number");
  }
  return value->get<double>();
}

double HfSection::required_positive(const char* key) const {
  const std::optional<double> value = positive(key);
  if (!value) fail_config("{}: {} is missing", name_, key);
  return *value;
}

bool HfSection::flag(const char* key, bool otherwise) const {
  const nlohmann::json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) reject(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> HfSection::text(const char* key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) reject(key, "a string");
  return value->get<std::string>();
}

std::optional<HfSection> HfSection::section(const char* key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) reject(key, "an object");
  return HfSection(*value, name_ + ": " + key);
}

void HfSection::reject(const char* key, std::string_view expected) const {
  const auto found = object_->find(key);
  if (found == object_->end()) fail_config("{}: {}, which is not given: expected {}", name_, key, expected);
  fail_config("{}: {}={}: expected {}", name_, key, found->dump(), expected);
}

}  // namespace maxtext
