// Reading of tokenizer.json: its vocabulary and merges, of which there are hundreds of thousands, go straight into
// tables; the rest, which is small, becomes a JSON value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_table.h"

namespace maxtext {

/// A list of strings in one piece of memory.
class StringList {
 public:
  void push_back(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

struct TokenizerFile {
  std::string name;           // what errors call it
  nlohmann::json components;  // the file without model.vocab and model.merges
  TokenTable vocab;           // model.vocab
  StringList merges;          // model.merges: the left and the right side of each, one after the other
};

/// Throws ConfigError for what is not JSON (with the byte), for a vocabulary that is no object of ids or in which a
/// token or an id occurs twice, and for merges that are neither "left right" nor ["left", "right"].
TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& name);

}  // namespace maxtext
