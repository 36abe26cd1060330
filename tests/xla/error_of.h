// The words of an error.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace maxtext::testing {

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace maxtext::testing
