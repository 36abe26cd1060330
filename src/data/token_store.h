// Documents of tokens in mapped files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/integer_array.h"

namespace maxtext {

/// A file of tokens and the places in it where documents start.
struct TokenFile {
  IntegerArray tokens;
  /// Ascending indices into `tokens`, the first 0; a document ends where the next starts.
  IntegerArray starts;
};

/// The documents of several files, numbered through. Costs no memory but the mappings.
class TokenStore {
 public:
  /// `vocab_size` is the bound that every token must stay below.
  TokenStore(std::vector<TokenFile> files, std::int64_t vocab_size);

  std::int64_t documents() const { return first_documents_.back(); }

  /// Tokens of a document. Throws Error naming file and document when the index of starts is corrupt.
  std::int64_t length(std::int64_t document) const;

  /// Tokens [offset, offset + out.size()) of a document. Throws Error naming file and index for an id that is negative
  /// or not below vocab_size.
  void read(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const;

  /// "60 documents, 1234 tokens, contents 0123456789abcdef" (Dataset::fingerprint).
  std::string fingerprint() const;

 private:
  struct Place {
    const TokenFile* file;
    std::int64_t begin;
    std::int64_t end;
  };
  Place find(std::int64_t document) const;

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> first_documents_;  // per file, then the total
  std::int64_t vocab_size_;
};

}  // namespace maxtext
