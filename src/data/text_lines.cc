#include "data/text_lines.h"

namespace maxtext {

bool TextLines::next(std::string& line) {
  line.clear();
  while (true) {
    if (part_.text.empty()) {
      // A line ends where its document ends, and where it has filled a part.
      const bool line_ends = part_.ends_document || line.size() > kTextPartBytes;
      if (line_ends && !line.empty()) return true;
      if (!reader_.next(part_)) return !line.empty();
    }
    const std::size_t newline = part_.text.find('\n');
    line += part_.text.substr(0, newline);
    part_.text.remove_prefix(newline == std::string_view::npos ? part_.text.size() : newline + 1);
    if (newline != std::string_view::npos && !line.empty()) return true;
  }
}

}  // namespace maxtext
