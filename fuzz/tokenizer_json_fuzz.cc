// A tokenizer.json is refused with a ConfigError, or it encodes and decodes any text without an error.
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

// Short, as a pattern of the file's own may take exponential time.
constexpr std::array<std::string_view, 8> kTexts{"",
                                                 "a",
                                                 "ab ab\n",
                                                 "<s>ab</s> ",
                                                 "\xC3\xA9\xE6\xBC\xA2",
                                                 "12 x's",
                                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                                                 "\xF0\x9F\x98\x80"};

std::unique_ptr<HuggingFaceTokenizer> open(std::string_view text) {
  try {
    return std::make_unique<HuggingFaceTokenizer>(text, "", "tokenizer.json");
  } catch (const ConfigError&) {
    return nullptr;
  }
}

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void use(const HuggingFaceTokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    const auto ids = tokenizer.encode(text, {.add_special_tokens = true});
    tokenizer.encode_continuation(text);
    tokenizer.encode(text, {.parse_special_tokens = false});
    StreamDecoder stream(tokenizer);
    for (const std::int32_t id : ids) {
      require(tokenizer.has_token(id) && id < tokenizer.vocab_size());
      stream.push(id);
    }
    stream.flush();
    require(!first_invalid_utf8(tokenizer.decode(ids, SpecialTokens::keep)));
  }
}

}  // namespace
}  // namespace maxtext

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokenizer = maxtext::open({reinterpret_cast<const char*>(data), size});
  if (tokenizer) maxtext::use(*tokenizer);
  return 0;
}
