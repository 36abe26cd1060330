#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }
bool is_compatibility(NormalForm form) { return form == NormalForm::nfkc || form == NormalForm::nfkd; }

/// Characters below this bound never change, reorder or combine with what stands before them.
char32_t inert_below(NormalForm form) { return form == NormalForm::nfc ? 0x300 : 0x80; }

void append_decomposed(CodePoints& points, char32_t character, NormalForm form) {
  const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (is_compatibility(form) ? UTF8PROC_COMPAT : 0);
  utf8proc_int32_t parts[32];  // the longest, of U+FDFA, has 18
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts, 32,
                                             static_cast<utf8proc_option_t>(options), &boundary);
  if (count < 0 || count > 32) fail("cannot decompose U+{:04X}", static_cast<std::uint32_t>(character));
  points.insert(points.end(), parts, parts + count);
}

int combining_class(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

/// Canonical order of each run of combining marks. The library's own reordering takes quadratic time.
void reorder_marks(CodePoints& points) {
  for (auto begin = points.begin(); begin != points.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, points.end(), [](auto point) { return combining_class(point) == 0; });
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

void append_normalized(std::string& result, std::string_view text, NormalForm form, CodePoints& points) {
  points.clear();
  for (std::size_t i = 0; i < text.size(); i += utf8_length(text[i])) {
    append_decomposed(points, utf8_at(text, i), form);
  }
  reorder_marks(points);
  if (composes(form)) {
    const auto size = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    points.resize(static_cast<std::size_t>(size));
  }
  for (const auto point : points) append_utf8(result, static_cast<char32_t>(point));
}

}  // namespace

bool is_white_space(char32_t character) {
  if (character < 0x80) return character == ' ' || (character >= '\t' && character <= '\r');
  if (character == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_numeric(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t character) {
  if (character < 0x80) {
    return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
           (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
  }
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i += utf8_length(text[i])) {
    const char32_t character = utf8_at(text, i);
    if (character == 0x130) {
      result += "i\xCC\x87";  // the only one whose lower case is two characters
    } else {
      append_utf8(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
    }
  }
  return result;
}

std::string normalize(std::string_view text, NormalForm form) {
  const char32_t bound = inert_below(form);
  std::string result;
  result.reserve(text.size());
  CodePoints points;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (utf8_at(text, i) < bound) {
      i += utf8_length(text[i]);
      continue;
    }
    // A run is the inert character that marks may combine with, and all that follows up to the next one.
    std::size_t begin = i;
    if (begin > done) begin = utf8_boundary(text, begin - 1);
    std::size_t end = i;
    while (end < text.size() && utf8_at(text, end) >= bound) end += utf8_length(text[end]);
    result += text.substr(done, begin - done);
    append_normalized(result, text.substr(begin, end - begin), form, points);
    done = i = end;
  }
  return result += text.substr(done);
}

}  // namespace maxtext
