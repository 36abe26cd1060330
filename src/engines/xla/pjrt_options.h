// Named options of a PJRT plugin.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace maxtext {

using PjrtOption = std::variant<std::int64_t, bool, float, std::string, std::vector<std::int64_t>>;

/// By name. A plugin refuses names that it does not know and values of another kind than it expects.
using PjrtOptions = std::map<std::string, PjrtOption>;

}  // namespace maxtext
