#include "tokenizer/regex.h"

// The library's header wants to know which of its three widths of characters is meant.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <limits>
#include <new>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::size_t kJitStackBytes = std::size_t{1} << 20;

struct CompileError {
  int code = 0;
  PCRE2_SIZE offset = 0;
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

pcre2_code* compile(const std::string& pattern, CompileError& error) {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* code = pcre2_compile(bytes_of(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                   &error.code, &error.offset, context);
  pcre2_compile_context_free(context);
  return code;
}

}  // namespace

void RegexScratch::prepare() {
  if (context_ == nullptr) context_ = pcre2_match_context_create(nullptr);
  if (match_data_ == nullptr) match_data_ = pcre2_match_data_create(1, nullptr);
  if (match_data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  constexpr auto kNoLimit = std::numeric_limits<std::uint32_t>::max();
  pcre2_set_match_limit(context_, kNoLimit);
  pcre2_set_depth_limit(context_, kNoLimit);
  pcre2_set_heap_limit(context_, kNoLimit);
  stack_ = pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr);
  if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
}

RegexScratch::~RegexScratch() {
  pcre2_match_data_free(match_data_);
  pcre2_match_context_free(context_);
  if (stack_ != nullptr) pcre2_jit_stack_free(stack_);
}

Regex::Regex(const std::string& pattern) {
  CompileError error;
  code_ = compile(pattern, error);
  if (code_ == nullptr) fail_config("pattern '{}' at byte {}: {}", pattern, error.offset, message_of(error.code));
  // Where the machine has no compiler, the interpreter matches the same.
  compiled_ = pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() { pcre2_code_free(code_); }

bool Regex::is_valid(const std::string& pattern) {
  CompileError error;
  pcre2_code* code = compile(pattern, error);
  pcre2_code_free(code);
  return code != nullptr;
}

std::optional<Match> Regex::find(std::string_view text, std::size_t from, RegexScratch& scratch) const {
  if (scratch.match_data_ == nullptr) scratch.prepare();
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (compiled_ && scratch.stack_ != nullptr) {
    // Without pcre2_match's checks, which cost as much as matching a word.
    result = pcre2_jit_match(code_, bytes_of(text), text.size(), from, 0, scratch.match_data_, scratch.context_);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = interpret(text, from, scratch);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) fail("cannot match a regular expression: {}", message_of(result));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.match_data_);
  return Match{bounds[0], bounds[1]};
}

/// Takes its memory from the heap: for the texts that make deep recursions.
int Regex::interpret(std::string_view text, std::size_t from, RegexScratch& scratch) const {
  return pcre2_match(code_, bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch.match_data_,
                     scratch.context_);
}

}  // namespace maxtext
