// The key table and a configuration in words: help, base.yml, documentation, dump. All made from config/keys.h.
#pragma once

#include <span>
#include <string>

#include "config/config.h"
#include "config/keys.h"
#include "config/resolve.h"

namespace maxtext {

/// One key with type, default, allowed values, aliases, group and help, over several lines.
std::string describe_key(const Key& key);

/// All keys that do something, grouped, one line each.
std::string describe_all_keys();

/// The text of configs/base.yml: every active key at its default, grouped, with its help as a comment.
std::string base_yaml();

/// The text of docs/configuration.md.
std::string configuration_markdown();

/// A run file that gives the same configuration again: every active key with where its value came from, below a line
/// `base_config`; what follows from several keys (mesh, batch, parameters) stands in comments.
std::string dump_config(const Config& config, const std::string& base_file, const MeshSizes& mesh);

}  // namespace maxtext
