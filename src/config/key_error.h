// Errors of what a key leads to, as errors of that key.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace maxtext {

/// "KEY=PATH: REASON", for what is wrong at the path that the key names. Where the reason begins with that path, or
/// with that of a file in its folder, the path is said once.
std::string key_error(std::string_view key, const std::string& path, std::string_view reason);

/// What `open` returns. Throws ConfigError with the key_error of an Error that it throws.
template <typename Open>
auto open_for_key(std::string_view key, const std::string& path, const Open& open) {
  try {
    return open();
  } catch (const Error& error) {
    throw ConfigError(key_error(key, path, error.what()));
  }
}

}  // namespace maxtext
