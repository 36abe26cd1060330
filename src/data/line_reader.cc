#include "data/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), buffer_(kBufferBytes) {
  if (file_ < 0) fail("cannot open {}: {}", path.string(), std::strerror(errno));
}

LineReader::~LineReader() { ::close(file_); }

bool LineReader::fill() {
  if (at_end_) return false;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  ssize_t count = -1;
  do {
    count = ::read(file_, buffer_.data() + end_, buffer_.size() - end_);
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail("cannot read {}: {}", path_.string(), std::strerror(errno));
  at_end_ = count == 0;
  const std::string_view fresh(buffer_.data() + end_, static_cast<std::size_t>(count));
  if (at_end_ ? !validator_.finish() : !validator_.feed(fresh)) {
    fail("{}: not UTF-8 at byte {}", path_.string(), validator_.error_offset());
  }
  end_ += static_cast<std::size_t>(count);
  return true;
}

bool LineReader::next(Fragment& fragment) {
  std::size_t searched = begin_;
  std::size_t newline = end_;
  while (true) {
    const auto found = std::find(buffer_.begin() + static_cast<std::ptrdiff_t>(searched),
                                 buffer_.begin() + static_cast<std::ptrdiff_t>(end_), '\n');
    newline = static_cast<std::size_t>(found - buffer_.begin());
    if (newline < end_ || end_ - begin_ == buffer_.size()) break;
    searched = end_ - begin_;
    if (!fill()) break;
  }
  if (begin_ == end_ && starts_line_) return false;
  const bool has_newline = newline < end_;
  std::string_view text(buffer_.data() + begin_, newline - begin_);
  if (!has_newline && !at_end_) {
    // A full buffer without a line end: keep the last bytes, they may be half a character, or the \r of the line end.
    text = text.substr(0, utf8_boundary(text, text.size() - 4));
  }
  begin_ += text.size() + (has_newline ? 1 : 0);
  fragment.ends_line = has_newline || at_end_;
  if (fragment.ends_line && text.ends_with('\r')) text.remove_suffix(1);
  if (starts_file_ && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  line_ += starts_line_ ? 1 : 0;
  starts_file_ = false;
  starts_line_ = fragment.ends_line;
  fragment.text = text;
  return true;
}

}  // namespace maxtext
