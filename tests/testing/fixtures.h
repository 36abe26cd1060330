// Where the golden data lives. The environment variable MAXTEXT_FIXTURES replaces the committed copy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace maxtext::testing {

/// $MAXTEXT_FIXTURES, else tests/fixtures of the source tree.
std::filesystem::path fixture_root();

/// Files and folders below fixture_root() that match a shell pattern such as "maxtext/attention_*.safetensors" or
/// "hf/models/*/config.json", sorted. Throws Error when nothing matches, so that no golden test passes for want of
/// data.
std::vector<std::filesystem::path> find_fixtures(const std::string& pattern);

}  // namespace maxtext::testing
