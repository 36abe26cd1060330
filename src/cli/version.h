#pragma once

#include <string_view>

namespace maxtext {

/// The version of the project, as CMakeLists.txt says.
std::string_view version();

}  // namespace maxtext
