// What fails in a plugin and is told apart from other errors.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace maxtext {

/// A program or an array does not fit into a device's memory, found when it is compiled or when it runs.
class OutOfDeviceMemory : public Error {
 public:
  /// `message` is one line of `words`.
  OutOfDeviceMemory(const std::string& message, std::string words) : Error(message), words_(std::move(words)) {}

  /// All that the plugin said, in lines; libtpu's compiler lists the largest allocations.
  const std::string& words() const { return words_; }

 private:
  std::string words_;
};

}  // namespace maxtext
