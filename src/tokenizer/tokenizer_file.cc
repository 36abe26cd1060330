#include "tokenizer/tokenizer_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "tokenizer/json_node.h"

namespace maxtext {
namespace {

using Json = nlohmann::json;

/// Takes the parser's events. Where it is in the file is the list of keys of the objects that it is in.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool truth) override { return value(truth); }
  bool number_integer(number_integer_t number) override { return in_vocab() ? token(number) : value(number); }
  bool number_unsigned(number_unsigned_t number) override {
    // An id beyond every range stays beyond it as -1.
    return in_vocab() ? token(number > INT32_MAX ? -1 : static_cast<std::int64_t>(number)) : value(number);
  }
  bool number_float(number_float_t number, const string_t& /*text*/) override { return value(number); }
  bool string(string_t& text) override { return in_merges() ? merge_part(text) : value(std::move(text)); }
  bool binary(binary_t& bytes) override { return value(Json::binary(std::move(bytes))); }

  bool start_object(std::size_t /*size*/) override {
    if (skipped_ == Skipped::merges) refuse_merge();
    if (skipped_ == Skipped::vocab) fail_config("{}: model.vocab: '{}' has an object for an id", file_.name, key_);
    if (at_model() && key_ == "vocab") return enter(Skipped::vocab);
    return open(Json::object());
  }
  bool key(string_t& text) override {
    key_ = std::move(text);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override {
    if (skipped_ == Skipped::merges && in_pair_) refuse_merge();
    if (skipped_ == Skipped::merges) {
      parts_ = 0;
      return in_pair_ = true;
    }
    if (skipped_ == Skipped::vocab) fail_config("{}: model.vocab: '{}' has a list for an id", file_.name, key_);
    if (at_model() && key_ == "merges") return enter(Skipped::merges);
    return open(Json::array());
  }
  bool end_array() override {
    if (!in_pair_) return close();
    if (parts_ != 2) refuse_merge();
    in_pair_ = false;
    return true;
  }
  bool parse_error(std::size_t /*byte*/, const std::string& /*token*/, const Json::exception& error) override {
    fail_config("{}: {}", file_.name, why_not_json(error));
  }

 private:
  enum class Skipped { none, vocab, merges };

  bool in_vocab() const { return skipped_ == Skipped::vocab; }
  bool in_merges() const { return skipped_ == Skipped::merges; }
  bool at_model() const { return open_.size() == 2 && open_.front()->is_object() && model_ == open_.back(); }

  bool enter(Skipped part) {
    const bool repeated = (part == Skipped::vocab ? saw_vocab_ : saw_merges_);
    if (repeated) fail_config("{}: model.{} occurs twice", file_.name, key_);
    (part == Skipped::vocab ? saw_vocab_ : saw_merges_) = true;
    skipped_ = part;
    return true;
  }

  bool token(std::int64_t id) {
    if (file_.vocab.add(key_, id)) return true;
    fail_config("{}: model.vocab: the token '{}' or its id {} occurs twice, or the id is not in 0-{}", file_.name, key_,
                id, TokenTable::kLargestId);
  }

  [[noreturn]] void refuse_merge() const {
    const std::size_t sides = file_.merges.size() - (in_pair_ ? std::min(parts_, std::size_t{2}) : 0);
    fail_config("{}: model.merges[{}]: expected \"left right\" or [\"left\", \"right\"]", file_.name, sides / 2);
  }

  bool merge_part(std::string_view text) {
    if (in_pair_) {
      if (++parts_ > 2) refuse_merge();
      file_.merges.push_back(text);
      return true;
    }
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) refuse_merge();
    file_.merges.push_back(text.substr(0, space));
    file_.merges.push_back(text.substr(space + 1));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kJsonDepth) fail_config("{}: nested deeper than {} levels", file_.name, kJsonDepth);
    const bool is_model = open_.size() == 1 && open_.front()->is_object() && key_ == "model";
    open_.push_back(put(std::move(container)));
    if (is_model) model_ = open_.back();
    return true;
  }

  bool close() {
    if (skipped_ != Skipped::none) {
      skipped_ = Skipped::none;
    } else {
      open_.pop_back();
    }
    return true;
  }

  template <typename Value>
  bool value(Value&& found) {
    if (in_vocab()) fail_config("{}: model.vocab: '{}' has an id that is no integer", file_.name, key_);
    if (in_merges()) refuse_merge();
    put(Json(std::forward<Value>(found)));
    return true;
  }

  /// Stores a value in the innermost open list or object. Those stay where they are in memory while they are open, as
  /// only the innermost one grows.
  Json* put(Json found) {
    if (open_.empty()) return &(file_.components = std::move(found));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(found));
    return &((*open_.back())[key_] = std::move(found));
  }

  TokenizerFile& file_;
  std::vector<Json*> open_;
  const Json* model_ = nullptr;
  std::string key_;
  Skipped skipped_ = Skipped::none;
  bool saw_vocab_ = false;
  bool saw_merges_ = false;
  bool in_pair_ = false;
  std::size_t parts_ = 0;  // of the pair so far
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& name) {
  TokenizerFile file;
  file.name = name;
  Reader reader(file);
  Json::sax_parse(text.begin(), text.end(), &reader);
  if (!file.components.is_object()) fail_config("{}: expected a JSON object", name);
  return file;
}

}  // namespace maxtext
