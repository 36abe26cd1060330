// Lines of a UTF-8 file of any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/utf8.h"

namespace maxtext {

/// Reads with a fixed buffer, validates, and splits at \n; a \r before it is dropped, and so is a byte order mark.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  struct Fragment {
    std::string_view text;
    /// False for a part of a line longer than the buffer; more of it follows.
    bool ends_line = true;
  };

  /// Stores the next line or part of one, valid until the next call; false at the end of the file. Throws Error
  /// "FILE: not UTF-8 at byte N".
  bool next(Fragment& fragment);

  /// Number of the line that the last fragment belongs to, from 1.
  std::int64_t line() const { return line_; }

 private:
  bool fill();

  std::filesystem::path path_;
  int file_;
  Utf8Validator validator_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool at_end_ = false;
  bool starts_file_ = true;
  bool starts_line_ = true;
  std::int64_t line_ = 0;
};

}  // namespace maxtext
