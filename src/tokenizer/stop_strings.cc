#include "tokenizer/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace maxtext {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_) {
    if (string.empty()) fail_config("a stop string is empty");
  }
}

std::string StopStrings::push(std::string_view piece) {
  if (stopped()) return {};
  held_ += piece;
  std::size_t first_end = std::string::npos;
  for (const std::string& string : strings_) {
    const std::size_t begin = held_.find(string);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + string.size();
    const bool longer = end == first_end && string.size() > found_->size();
    if (end < first_end || longer) {
      first_end = end;
      found_ = &string;
    }
  }
  const std::size_t passes = stopped() ? first_end - found_->size() : held_.size() - ambiguous_tail();
  std::string result = held_.substr(0, passes);
  held_.erase(0, stopped() ? held_.size() : passes);
  return result;
}

std::string StopStrings::flush() { return std::exchange(held_, {}); }

/// Length of the longest end of what is held that is the start, but not the whole, of a stop string.
std::size_t StopStrings::ambiguous_tail() const {
  std::size_t longest = 0;
  for (const std::string& string : strings_) {
    for (std::size_t length = std::min(string.size() - 1, held_.size()); length > longest; --length) {
      if (held_.ends_with(std::string_view(string).substr(0, length))) longest = length;
    }
  }
  return longest;
}

}  // namespace maxtext
