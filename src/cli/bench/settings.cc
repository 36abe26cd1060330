#include "cli/bench/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "config/nearest.h"

namespace maxtext::bench {
namespace {

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

/// The whole of `text` as a number, or nothing.
template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Settings::Settings(std::string_view benchmark, std::vector<Setting> settings,
                   const std::vector<std::string>& assignments, std::vector<std::string>* rest)
    : benchmark_(benchmark), settings_(std::move(settings)) {
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    const std::string_view name = std::string_view(assignment).substr(0, equals);
    const auto known = std::ranges::find(settings_, name, &Setting::name);
    if (equals != std::string::npos && known != settings_.end()) {
      known->value = assignment.substr(equals + 1);
    } else if (rest != nullptr) {
      rest->push_back(assignment);
    } else if (equals == std::string::npos) {
      fail_config("bench {}: expected key=value, not '{}'", benchmark_, assignment);
    } else {
      std::vector<std::string_view> names;
      for (const Setting& setting : settings_) names.push_back(setting.name);
      fail_config("bench {}: unknown key '{}'{}; keys are {}", benchmark_, name, did_you_mean(name, names),
                  fmt::join(names, ", "));
    }
  }
}

const Setting& Settings::setting(std::string_view name) const {
  const auto found = std::ranges::find(settings_, name, &Setting::name);
  if (found == settings_.end()) throw std::logic_error("bench: undeclared key " + std::string(name));
  return *found;
}

std::vector<std::int64_t> Settings::integers(std::string_view name, std::int64_t minimum) const {
  constexpr std::int64_t kMost = 2147483647;
  std::vector<std::int64_t> values;
  for (const std::string& part : split(setting(name).value)) {
    std::int64_t value = 0;
    if (!parse(part, value) || value < minimum || value > kMost) {
      fail_config("bench {}: {}={}: '{}' is not an integer from {} to {}", benchmark_, name, setting(name).value, part,
                  minimum, kMost);
    }
    values.push_back(value);
  }
  return values;
}

std::int64_t Settings::integer(std::string_view name, std::int64_t minimum) const {
  const std::vector<std::int64_t> values = integers(name, minimum);
  if (values.size() != 1) {
    fail_config("bench {}: {}={}: takes one value, not a list", benchmark_, name, setting(name).value);
  }
  return values.front();
}

double Settings::real(std::string_view name) const {
  double value = 0;
  if (!parse(setting(name).value, value) || !std::isfinite(value) || value < 0) {
    fail_config("bench {}: {}={}: takes a number of at least 0", benchmark_, name, setting(name).value);
  }
  return value;
}

std::vector<std::string> Settings::words(std::string_view name, const std::vector<std::string_view>& allowed) const {
  std::vector<std::string> values = split(setting(name).value);
  for (const std::string& value : values) {
    if (std::ranges::find(allowed, value) == allowed.end()) {
      fail_config("bench {}: {}={}: '{}' is not one of {}", benchmark_, name, setting(name).value, value,
                  fmt::join(allowed, ", "));
    }
  }
  return values;
}

const std::string& Settings::text(std::string_view name) const { return setting(name).value; }

}  // namespace maxtext::bench
