#include "testing/fixtures.h"

#include <cstdlib>

namespace maxtext::testing {

std::filesystem::path fixture_root() {
  const char* configured = std::getenv("MAXTEXT_FIXTURES");
  return configured != nullptr ? configured : MAXTEXT_DEFAULT_FIXTURES;
}

}  // namespace maxtext::testing
