#include "data/text_reader.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "data/line_reader.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

/// Where to cut a text longer than a part: before a space that follows something else, so that tokenizers whose tokens
/// start with their space are not disturbed.
std::size_t part_size(std::string_view text) {
  std::size_t cut = kTextPartBytes;
  while (cut > 0 && !(text[cut] == ' ' && text[cut - 1] != ' ')) --cut;
  return cut > 0 ? cut : utf8_boundary(text, kTextPartBytes);
}

bool blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

}  // namespace

class TextReader::File {
 public:
  virtual ~File() = default;
  virtual bool next(TextPart& part) = 0;
};

class TextReader::PlainFile final : public File {
 public:
  PlainFile(const std::filesystem::path& path, std::string separator)
      : lines_(path), separator_(std::move(separator)) {}

  bool next(TextPart& part) override {
    LineReader::Fragment fragment;
    while (text_.size() <= kTextPartBytes) {
      if (!lines_.next(fragment)) return !text_.empty() && emit(part, text_.size(), true);
      const bool whole_line = std::exchange(line_starts_, fragment.ends_line) && fragment.ends_line;
      if (whole_line && separates(fragment.text)) {
        if (!text_.empty()) return emit(part, text_.size(), true);
      } else {
        append(fragment, whole_line);
      }
    }
    return emit(part, part_size(text_), false);
  }

 private:
  bool separates(std::string_view line) const {
    if (separator_.empty()) return false;
    return separator_ == "blank_line" ? blank(line) : line == separator_;
  }

  /// Line ends and blank lines are held back until something follows them, so that none end a document.
  void append(const LineReader::Fragment& fragment, bool whole_line) {
    const bool only_blank = whole_line && blank(fragment.text);
    if (only_blank && text_.empty()) return;
    if (!only_blank || held_.size() > kTextPartBytes) text_ += std::exchange(held_, {});
    (only_blank ? held_ : text_) += fragment.text;
    if (fragment.ends_line) held_ += '\n';
  }

  bool emit(TextPart& part, std::size_t size, bool ends_document) {
    part_ = text_.substr(0, size);
    text_.erase(0, size);
    part = {part_, std::exchange(document_starts_, ends_document), ends_document};
    if (ends_document) held_.clear();
    return true;
  }

  LineReader lines_;
  std::string separator_;
  std::string text_;  // of the current document, not yet given out; never empty once a part of it was
  std::string held_;
  std::string part_;
  bool line_starts_ = true;
  bool document_starts_ = true;
};

class TextReader::JsonlFile final : public File {
 public:
  JsonlFile(std::filesystem::path path, std::string field)
      : path_(std::move(path)), lines_(path_), field_(std::move(field)) {}

  bool next(TextPart& part) override {
    while (given_ == text_.size()) {
      if (!read_line()) return false;
      text_ = blank(line_) ? std::string() : text_of(line_);
      given_ = 0;
    }
    const std::string_view rest = std::string_view(text_).substr(given_);
    const std::size_t size = rest.size() > kTextPartBytes ? part_size(rest) : rest.size();
    part = {rest.substr(0, size), given_ == 0, size == rest.size()};
    given_ += size;
    return true;
  }

 private:
  bool read_line() {
    line_.clear();
    LineReader::Fragment fragment;
    do {
      if (!lines_.next(fragment)) return false;
      line_ += fragment.text;
    } while (!fragment.ends_line);
    return true;
  }

  std::string text_of(const std::string& line) const {
    const std::string place = fmt::format("{}:{}", path_.string(), lines_.line());
    nlohmann::json object;
    try {
      object = nlohmann::json::parse(line);
    } catch (const nlohmann::json::exception& error) {
      fail("{}: {}", place, why_not_json(error));
    }
    if (!object.is_object())
      fail("{}: expected a JSON object with field '{}', found {}", place, field_, object.type_name());
    const auto text = object.find(field_);
    if (text == object.end()) fail("{}: no field '{}'", place, field_);
    if (!text->is_string()) fail("{}: field '{}': expected a string, found {}", place, field_, text->type_name());
    return text->get<std::string>();
  }

  std::filesystem::path path_;
  LineReader lines_;
  std::string field_;
  std::string line_;
  std::string text_;
  std::size_t given_ = 0;
};

TextReader::TextReader(std::vector<std::filesystem::path> files, TextFormat format)
    : files_(std::move(files)), format_(std::move(format)) {}

TextReader::~TextReader() = default;

bool TextReader::next(TextPart& part) {
  while (true) {
    if (file_ && file_->next(part)) return true;
    file_.reset();
    if (next_file_ == files_.size()) return false;
    const std::filesystem::path& path = files_[next_file_++];
    if (path.extension() == ".jsonl") {
      file_ = std::make_unique<JsonlFile>(path, format_.jsonl_field);
    } else {
      file_ = std::make_unique<PlainFile>(path, format_.document_separator);
    }
  }
}

}  // namespace maxtext
