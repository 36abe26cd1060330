#include "testing/fixtures.h"

#include <glob.h>

#include <cstdlib>

#include "base/error.h"

namespace maxtext::testing {

std::filesystem::path fixture_root() {
  const char* root = std::getenv("MAXTEXT_FIXTURES");
  return root != nullptr && *root != '\0' ? root : MAXTEXT_DEFAULT_FIXTURES;
}

std::vector<std::filesystem::path> find_fixtures(const std::string& pattern) {
  const std::string full = (fixture_root() / pattern).string();
  glob_t found{};
  std::vector<std::filesystem::path> paths;
  if (::glob(full.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (paths.empty()) fail("no fixture matches {}", full);
  return paths;
}

}  // namespace maxtext::testing
