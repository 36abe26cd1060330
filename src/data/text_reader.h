// Documents of text from files of any size, in memory that does not depend on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

struct TextFormat {
  /// Field of the objects in .jsonl files that holds the text; one line is one document.
  std::string jsonl_field = "text";
  /// Where documents end in other files: "" only at the end of the file; "blank_line" at empty lines too; any other
  /// value is a line of exactly that text, as <|endoftext|>.
  std::string document_separator;
  bool operator==(const TextFormat&) const = default;
};

/// A part of a document. Parts of at most about kTextPartBytes are cut before a space, or failing that between two
/// characters; concatenated they are the document.
struct TextPart {
  std::string_view text;
  bool begins_document = false;
  bool ends_document = false;
};

inline constexpr std::size_t kTextPartBytes = 64 * 1024;

/// Reads files one after another. Line ends of plain text become \n, a byte order mark and blank lines at the edges of
/// a document are dropped; documents without any text are skipped.
class TextReader {
 public:
  TextReader(std::vector<std::filesystem::path> files, TextFormat format);
  ~TextReader();

  /// Stores the next part, whose text is valid until the next call; false at the end of the last file. Throws Error:
  /// for bytes that are not UTF-8 ("FILE: not UTF-8 at byte N"), and for .jsonl lines ("FILE:LINE: ...") that are not
  /// a JSON object or whose field is missing or not a string.
  bool next(TextPart& part);

 private:
  class File;
  class PlainFile;
  class JsonlFile;

  std::vector<std::filesystem::path> files_;
  TextFormat format_;
  std::size_t next_file_ = 0;
  std::unique_ptr<File> file_;
};

}  // namespace maxtext
