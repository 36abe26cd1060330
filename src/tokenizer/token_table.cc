#include "tokenizer/token_table.h"

#include "tokenizer/text_hash.h"

namespace maxtext {

bool TokenTable::add(std::string_view token, std::int64_t id) {
  if (id < 0 || id > kLargestId || token.size() >= kNone || spellings_.size() + token.size() >= kNone) return false;
  if (has(static_cast<std::int32_t>(id)) || find(token)) return false;
  if (id >= limit()) places_.resize(static_cast<std::size_t>(id) + 1);
  places_[static_cast<std::size_t>(id)] = {static_cast<std::uint32_t>(spellings_.size()),
                                           static_cast<std::uint32_t>(token.size())};
  spellings_ += token;
  ++size_;
  if (static_cast<std::size_t>(size_) * 2 > slots_.size()) {
    grow();
  } else {
    slots_[slot_of(token)] = static_cast<std::int32_t>(id);
  }
  return true;
}

std::optional<std::int32_t> TokenTable::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const std::int32_t id = slots_[slot_of(token)];
  return id < 0 ? std::nullopt : std::optional(id);
}

/// The slot that holds the token, or the free one where it belongs.
std::size_t TokenTable::slot_of(std::string_view wanted) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = text_hash(wanted) & mask;
  while (slots_[slot] >= 0 && token(slots_[slot]) != wanted) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::grow() {
  slots_.assign(slots_.empty() ? 64 : slots_.size() * 4, -1);
  for (std::int32_t id = 0; id < limit(); ++id) {
    if (has(id)) slots_[slot_of(token(id))] = id;
  }
}

}  // namespace maxtext
