#include "tokenizer/stream_decoder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Bytes that never become a character are not waited for longer than this: the window would grow with every token, and
/// its decoding with it. A character has four bytes at most.
constexpr std::size_t kMostHeldBack = 64;

/// A text that a stream continues is decoded from no fewer of its last tokens, where it has them. vLLM takes as many.
constexpr std::size_t kLeastContext = 4;

}  // namespace

/// Keeps the fewest of the last tokens that begin with a whole character: one that is cut would spoil what follows.
void StreamDecoder::begin_after(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> text_ids;
  std::ranges::copy_if(ids, std::back_inserter(text_ids), [this](std::int32_t id) { return gives_text(id); });
  const std::size_t longest = std::min(text_ids.size(), kLeastContext + kMostHeldBack);
  for (std::size_t count = std::min(text_ids.size(), kLeastContext); count <= longest; ++count) {
    ids_.assign(text_ids.end() - static_cast<std::ptrdiff_t>(count), text_ids.end());
    prefix_ = decode(0);
    if (prefix_.find(kReplacement) == std::string::npos) break;
  }
  prefix_ids_ = ids_.size();
}

bool StreamDecoder::gives_text(std::int32_t id) const {
  return tokenizer_.has_token(id) && (special_ == SpecialTokens::keep || !tokenizer_.is_special(id));
}

std::string StreamDecoder::push(std::int32_t id) {
  if (!gives_text(id)) return {};
  if (prefix_.empty() && !ids_.empty()) {
    std::string text = decode(0);
    if (!text.ends_with(kReplacement)) {
      prefix_ = std::move(text);
      prefix_ids_ = ids_.size();
    }
  }
  ids_.push_back(id);
  const bool waited_enough = ids_.size() - prefix_ids_ > kMostHeldBack;
  const std::string text = decode(0);
  if (text.size() <= prefix_.size() || text.ends_with(kReplacement)) {
    if (!waited_enough) return {};
  }
  std::string result = rest();
  shorten_window();
  return result;
}

std::string StreamDecoder::flush() {
  std::string result = ids_.empty() ? std::string() : rest();
  ids_.clear();
  prefix_.clear();
  prefix_ids_ = 0;
  return result;
}

std::string StreamDecoder::decode(std::size_t begin) const {
  return replace_invalid_utf8(tokenizer_.decode(std::span(ids_).subspan(begin), special_));
}

/// What the window's text has beyond what was given out. Byte fallback spoils a run of bytes as a whole; then what was
/// given out is not its start any more, and the tokens after it speak for themselves.
std::string StreamDecoder::rest() const {
  std::string text = decode(0);
  if (text.starts_with(prefix_)) return text.substr(prefix_.size());
  return decode(prefix_ids_);
}

/// Keeps the tokens whose text was just given out.
void StreamDecoder::shorten_window() {
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(prefix_ids_));
  prefix_ = decode(0);
  prefix_ids_ = ids_.size();
}

}  // namespace maxtext
