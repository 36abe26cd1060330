// Every configuration key, declared once: name, type, default, help, allowed values. Parsing, base.yml, the
// documentation and `maxtext config` are all made from this table. To add a key, add one line to a keys_*.cc file and
// run scripts/update_config_docs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace maxtext {

enum class KeyStatus {
  active,   ///< read by the program
  fixed,    ///< a MaxText feature that is not here yet: only values that leave it off are accepted
  ignored,  ///< a MaxText key that changes no result here: any value is accepted, none can be read
};

struct Key {
  std::string name;
  std::string group;
  Value default_value;
  std::string help;
  KeyStatus status = KeyStatus::active;
  /// Text (or every element of a list): the values accepted, in lower case; empty accepts all.
  std::vector<std::string> allowed;
  /// Values of MaxText that get the answer "not implemented yet".
  std::vector<std::string> later;
  std::optional<double> minimum;
  std::optional<double> maximum;
  bool minimum_excluded = false;
  /// -1 is accepted beside the range; it means "automatic" or "no limit".
  bool minus_one = false;
  /// Integers: the value that `None`, `null` and an empty YAML value stand for.
  std::optional<Value> none;
  /// MaxText has no such key.
  bool is_ours = false;
  /// Other names of this key.
  std::vector<std::string> aliases;

  ValueType type() const { return type_of(default_value); }

  Key&& at_least(double bound) &&;
  Key&& more_than(double bound) &&;
  Key&& at_most(double bound) &&;
  Key&& or_minus_one() &&;
  Key&& one_of(std::vector<std::string> values) &&;
  Key&& not_yet(std::vector<std::string> values) &&;
  Key&& none_is(Value value) &&;
  Key&& also_called(std::string alias) &&;
  Key&& ours() &&;
};

/// "all_gather", "1 ... 10", "at least 1": the values accepted, for help and errors; empty when all of the type are.
std::string allowed_phrase(const Key& key);

/// All keys, in the order of the documentation; groups are contiguous.
std::span<const Key> all_keys();

/// The index in all_keys() of `name` or of the key that it is an alias of; nothing when there is none.
std::optional<std::size_t> find_key(std::string_view name);

/// Names and aliases of all keys, for suggestions.
std::vector<std::string_view> all_key_names();

}  // namespace maxtext
