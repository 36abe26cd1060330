// Where golden data lives.
#pragma once

#include <filesystem>

namespace maxtext::testing {

/// MAXTEXT_FIXTURES, or the copy in tests/fixtures.
std::filesystem::path fixture_root();

}  // namespace maxtext::testing
