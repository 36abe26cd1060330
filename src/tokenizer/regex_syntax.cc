#include "tokenizer/regex_syntax.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/regex.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

constexpr std::string_view kSpaceSet = R"(\x09-\x0d\x{85}\p{Z})";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHexSet = "0-9a-fA-F";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// What [:name:] holds, as the inside of a PCRE2 set.
std::optional<std::string_view> posix_set(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kSets{{{"alpha", R"(\p{Alphabetic})"},
                                                                                {"digit", R"(\p{Nd})"},
                                                                                {"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                                                                {"upper", R"(\p{Uppercase})"},
                                                                                {"lower", R"(\p{Lowercase})"},
                                                                                {"space", kSpaceSet},
                                                                                {"word", kWordSet},
                                                                                {"xdigit", kHexSet}}};
  for (const auto& [known, set] : kSets) {
    if (known == name) return set;
  }
  return std::nullopt;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    groups_.push_back({});
    while (!at_end()) item();
    if (groups_.size() > 1) refuse("a group is not closed");
    out_.append(groups_.back().pending, ')');
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t start = 0;    // in the output
    std::size_t pending = 0;  // groups opened by (?i), which end with this one
  };

  bool at_end() const { return at_ == in_.size(); }
  bool follows(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  bool skip(std::string_view text) {
    if (!follows(text)) return false;
    at_ += text.size();
    return true;
  }

  [[noreturn]] void refuse(std::string_view what) const { fail_config("pattern '{}' at byte {}: {}", in_, at_, what); }

  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  void item() {
    const char c = in_[at_];
    if (c == '\\') return escape();
    if (c == '[') return set();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '{') return interval();
    if (c == '*' || c == '+' || c == '?' || c == '|') {
      out_ += c;
      ++at_;
      return;
    }
    const std::size_t length = utf8_length(c);
    atom(in_.substr(at_, length));
    at_ += length;
  }

  void escape() {
    if (at_ + 1 == in_.size()) refuse("a backslash ends the pattern");
    const char c = in_[at_ + 1];
    const auto set_of = [&](std::string_view set, bool negated) {
      at_ += 2;
      atom(fmt::format("[{}{}]", negated ? "^" : "", set));
    };
    switch (c) {
      case 's':
      case 'S':
        return set_of(kSpaceSet, c == 'S');
      case 'w':
      case 'W':
        return set_of(kWordSet, c == 'W');
      case 'h':
      case 'H':
        return set_of(kHexSet, c == 'H');
      case 'b':
        at_ += 2;
        return atom(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWordSet));
      case 'B':
        at_ += 2;
        return atom(fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWordSet));
      case 'O':
        at_ += 2;
        return atom("(?s:.)");
      case 'k':
        return backreference();
      default:
        return atom(character_escape("ARXNGzZdD0123456789"));
    }
  }

  /// An escape that means the same in and outside of a set, or one of `also`, which PCRE2 reads as Oniguruma does.
  std::string character_escape(std::string_view also) {
    const char c = in_[at_ + 1];
    if (c == 'p' || c == 'P') return property();
    if (c == 'u' || c == 'x') return code_point();
    at_ += 2;
    if (c == 'v') return R"(\x0b)";
    if (is_letter(c) || is_digit(c)) {
      if (std::string_view("aefnrt").find(c) == std::string_view::npos && also.find(c) == std::string_view::npos) {
        at_ -= 2;
        refuse(fmt::format("the escape \\{} is not supported", c));
      }
      return {'\\', c};
    }
    const std::size_t length = utf8_length(c);
    std::string result;
    if (length == 1) result += '\\';
    result += in_.substr(at_ - 1, length);
    at_ += length - 1;
    return result;
  }

  /// \xHH, \x{HHHH} and \uHHHH.
  std::string code_point() {
    const bool four = in_[at_ + 1] == 'u';
    const bool braces = !four && in_.substr(at_ + 2).starts_with('{');
    const std::size_t begin = at_ + (braces ? 3 : 2);
    std::size_t end = begin;
    const std::size_t most = braces ? 8 : four ? 4 : 2;
    while (end < in_.size() && end < begin + most && std::isxdigit(static_cast<unsigned char>(in_[end])) != 0) ++end;
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    if (end == begin || (four && end - begin != 4) || !closed) refuse("expected hexadecimal digits");
    at_ = end + (braces ? 1 : 0);
    return fmt::format("\\x{{{}}}", in_.substr(begin, end - begin));
  }

  /// \p{Name}, \p{^Name} and \P{Name}.
  std::string property() {
    bool negated = in_[at_ + 1] == 'P';
    if (!in_.substr(at_ + 2).starts_with('{')) refuse("expected {Name} after \\p");
    const std::size_t begin = at_ + 3;
    const std::size_t end = in_.find('}', begin);
    if (end == std::string_view::npos) refuse("expected {Name} after \\p");
    std::string_view name = in_.substr(begin, end - begin);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const char letter = negated ? 'P' : 'p';
    for (const std::string_view prefix : {"sc:", ""}) {
      std::string result = fmt::format("\\{}{{{}{}}}", letter, prefix, name);
      // Names of general categories have one or two letters; only longer ones can be scripts.
      if ((prefix.empty() || name.size() > 2) && name.find(':') == std::string_view::npos && Regex::is_valid(result)) {
        at_ = end + 1;
        return result;
      }
    }
    refuse(fmt::format("unknown property '{}'", name));
  }

  void backreference() {
    const std::size_t end = in_.find('>', at_);
    if (!in_.substr(at_ + 2).starts_with('<') || end == std::string_view::npos) refuse("expected \\k<name>");
    atom(in_.substr(at_, end + 1 - at_));
    at_ = end + 1;
  }

  void set() {
    atom("[");
    ++at_;
    if (skip("^")) out_ += '^';
    if (skip("]")) out_ += R"(\])";
    while (!at_end() && in_[at_] != ']') set_item();
    if (at_end()) refuse("a set is not closed");
    ++at_;
    out_ += ']';
  }

  void set_item() {
    if (follows("&&")) refuse("the intersection of sets is not supported");
    if (follows("[:")) return posix_item();
    if (in_[at_] == '[') refuse("sets within sets are not supported");
    if (in_[at_] == '\\') return set_escape();
    const std::size_t length = utf8_length(in_[at_]);
    out_ += in_.substr(at_, length);
    at_ += length;
  }

  void posix_item() {
    const std::size_t end = in_.find(":]", at_);
    const std::string_view name = end == std::string_view::npos ? "" : in_.substr(at_ + 2, end - at_ - 2);
    const auto set = posix_set(name);
    if (!set) refuse("this set in brackets is not supported");
    at_ = end + 2;
    whole_set(*set);
  }

  void set_escape() {
    if (at_ + 1 == in_.size()) refuse("a backslash ends the pattern");
    const char c = in_[at_ + 1];
    std::string_view set;
    if (c == 's') set = kSpaceSet;
    if (c == 'S') set = R"(\S\x{180e})";  // PCRE2 counts that one, and nothing else too many, as space
    if (c == 'w') set = kWordSet;
    if (c == 'h') set = kHexSet;
    if (c == 'd') set = R"(\p{Nd})";
    if (c == 'D') set = R"(\P{Nd})";
    if (!set.empty()) {
      at_ += 2;
      return whole_set(set);
    }
    const bool is_property = c == 'p' || c == 'P';
    const std::string text = character_escape("b");
    if (is_property) return whole_set(text);
    out_ += text;
  }

  /// A hyphen after a set within a set is a hyphen.
  void whole_set(std::string_view set) {
    out_ += set;
    if (follows("-") && !follows("-]")) {
      out_ += R"(\-)";
      ++at_;
    }
  }

  void open_group() {
    const std::size_t start = out_.size();
    if (follows("(?#")) return comment();
    if (follows("(?") && !known_group()) return options();
    groups_.push_back({start, 0});
    out_ += '(';
    ++at_;
    if (skip("?")) copy_group_kind();
  }

  bool known_group() const {
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (follows(kind)) return true;
    }
    return follows("(?<") && at_ + 3 < in_.size() && is_letter(in_[at_ + 3]);
  }

  void copy_group_kind() {
    out_ += '?';
    for (const std::string_view kind : {"<=", "<!", ":", "=", "!", ">", "<"}) {
      if (!skip(kind)) continue;
      out_ += kind;
      return;
    }
  }

  void comment() {
    const std::size_t end = in_.find(')', at_);
    if (end == std::string_view::npos) refuse("a comment is not closed");
    at_ = end + 1;
  }

  /// (?i:...) or (?i); Ruby's m is the s of others.
  void options() {
    const std::size_t start = out_.size();
    std::string letters;
    std::size_t end = at_ + 2;
    while (end < in_.size() && (in_[end] == 'i' || in_[end] == 'm' || in_[end] == '-')) {
      letters += in_[end] == 'm' ? 's' : in_[end];
      ++end;
    }
    if (end == in_.size() || letters.empty() || (in_[end] != ':' && in_[end] != ')')) {
      refuse("this kind of group is not supported");
    }
    out_ += fmt::format("(?{}:", letters);
    if (in_[end] == ':') {
      groups_.push_back({start, 0});
    } else {
      ++groups_.back().pending;
    }
    at_ = end + 1;
  }

  void close_group() {
    if (groups_.size() == 1) refuse("a parenthesis closes nothing");
    out_.append(groups_.back().pending + 1, ')');
    atom_ = groups_.back().start;
    groups_.pop_back();
    ++at_;
  }

  /// {n}, {n,}, {,m} or {n,m}; anything else that starts with a brace is a brace.
  void interval() {
    std::size_t end = at_ + 1;
    const auto number = [&] {
      const std::size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return in_.substr(begin, end - begin);
    };
    const std::string_view least = number();
    const bool comma = end < in_.size() && in_[end] == ',';
    if (comma) ++end;
    const std::string_view most = comma ? number() : least;
    if (end == in_.size() || in_[end] != '}' || (least.empty() && most.empty())) {
      atom(R"(\{)");
      ++at_;
      return;
    }
    at_ = end + 1;
    out_ += comma ? fmt::format("{{{},{}}}", least.empty() ? "0" : least, most) : fmt::format("{{{}}}", least);
    // A + after an interval, and a ? after {n}, apply to the whole.
    if (follows("+") || (!comma && follows("?"))) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;  // where the last atom starts in the output
  std::vector<Group> groups_;
};

}  // namespace

std::string translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace maxtext
