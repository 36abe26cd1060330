#include "data/token_store.h"

#include <algorithm>

#include "base/content_hash.h"
#include "base/error.h"
#include "data/sampled_hash.h"

namespace maxtext {

TokenStore::TokenStore(std::vector<TokenFile> files, std::int64_t vocab_size)
    : files_(std::move(files)), first_documents_{0}, vocab_size_(vocab_size) {
  for (const TokenFile& file : files_) first_documents_.push_back(first_documents_.back() + file.starts.size());
}

TokenStore::Place TokenStore::find(std::int64_t document) const {
  const auto next = std::upper_bound(first_documents_.begin(), first_documents_.end(), document);
  const std::int64_t part = next - first_documents_.begin() - 1;
  if (document < 0 || document >= documents()) fail("no document {} among {}", document, documents());
  const TokenFile& file = files_[static_cast<std::size_t>(part)];
  const std::int64_t local = document - first_documents_[static_cast<std::size_t>(part)];
  const std::int64_t begin = file.starts.at(local);
  const std::int64_t end = local + 1 < file.starts.size() ? file.starts.at(local + 1) : file.tokens.size();
  if (begin < 0 || begin > end || end > file.tokens.size() || (local == 0 && begin != 0)) {
    fail("{}: document {} has tokens {} to {} of {}; starts must ascend from 0 and lie within the tokens",
         file.starts.path().string(), local, begin, end, file.tokens.size());
  }
  return {&file, begin, end};
}

std::int64_t TokenStore::length(std::int64_t document) const {
  const Place place = find(document);
  return place.end - place.begin;
}

void TokenStore::read(std::int64_t document, std::int64_t offset, std::span<std::int32_t> out) const {
  const Place place = find(document);
  const std::int64_t first = place.begin + offset;
  if (offset < 0 || first + std::ssize(out) > place.end) fail("tokens beyond the end of document {}", document);
  const IntegerArray& tokens = place.file->tokens;
  tokens.copy(first, out);
  const auto bad = std::find_if(out.begin(), out.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_size_; });
  if (bad == out.end()) return;
  const std::int64_t index = first + (bad - out.begin());
  fail("{}: token {} at index {} is outside the vocabulary of {}", tokens.path().string(), tokens.at(index), index,
       vocab_size_);
}

std::string TokenStore::fingerprint() const {
  std::int64_t tokens = 0;
  std::uint64_t hash = kContentHashStart;
  for (const TokenFile& file : files_) {
    tokens += file.tokens.size();
    hash = sampled_hash(file.starts, sampled_hash(file.tokens, hash));
  }
  return fmt::format("{} documents, {} tokens, contents {}", documents(), tokens, hash_text(hash));
}

}  // namespace maxtext
