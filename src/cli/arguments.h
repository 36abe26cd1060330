// The configuration that a subcommand's arguments ask for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "config/load.h"

namespace maxtext {

/// `FILE key=value ...`: a configuration file followed by overrides, with this process' environment. Throws ConfigError
/// when there is no file. Devices of a launcher and check_files are left to the caller.
ConfigRequest config_request(const Arguments& file_and_overrides);

/// The configuration of `FILE key=value ...` for a command that checks itself which files it needs (check_files off),
/// with the note about keys without effect, of which the command has some of its own. Throws ConfigError as load_config
/// does.
Config load_command_config(ConfigRequest request, std::span<const std::string_view> without_effect = {});

/// One line on stderr naming keys that were given and have no effect here; nothing when there are none. Of several
/// processes that a launcher started, the first prints it. `without_effect`: keys that other commands heed; `more`:
/// what the command itself found, in the words of the note.
void note_ignored_keys(const Config& config, std::span<const std::string_view> without_effect = {},
                       const std::vector<std::string>& more = {});

/// What is possible and probably not meant, a line each on stderr.
void print_notes(const std::vector<std::string>& notes);

/// What whoever asked for a model has to know of it (ModelFiles::warnings), a line each on stderr.
void print_warnings(const std::vector<std::string>& warnings);

}  // namespace maxtext
