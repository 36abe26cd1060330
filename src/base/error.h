// Errors with context. A wrong input or a failure is an exception, thrown where its cause is known and printed once,
// as one line, by the command line.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace maxtext {

/// A failure at run time: corrupt data, a full disk, a device that died. The process ends with exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A wrong command line or configuration, found before any data is read. The process ends with exit code 2.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with the formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws ConfigError with the formatted message.
template <typename... Args>
[[noreturn]] void fail_config(fmt::format_string<Args...> format, Args&&... args) {
  throw ConfigError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace maxtext
