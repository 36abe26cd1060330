// Lines of text sources, for training a tokenizer.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/text_reader.h"

namespace maxtext {

/// The non-empty lines of all documents of some files, one after another; a very long line comes in several pieces.
class TextLines {
 public:
  TextLines(std::vector<std::filesystem::path> files, TextFormat format)
      : reader_(std::move(files), std::move(format)) {}

  /// Stores the next line; false at the end. Throws what TextReader throws.
  bool next(std::string& line);

 private:
  TextReader reader_;
  TextPart part_;
};

}  // namespace maxtext
