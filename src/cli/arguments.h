// The configuration that a subcommand's arguments ask for.
#pragma once

#include "cli/commands.h"
#include "config/load.h"

namespace maxtext {

/// `FILE key=value ...`: a configuration file followed by overrides, with this process' environment. Throws ConfigError
/// when there is no file. Devices of a launcher and check_files are left to the caller.
ConfigRequest config_request(const Arguments& file_and_overrides);

/// The configuration of `FILE key=value ...` for a command that checks itself which files it needs (check_files off),
/// with the note about keys without effect. Throws ConfigError as load_config does.
Config load_command_config(const Arguments& file_and_overrides);

/// One line on stderr naming keys that were given and have no effect here; nothing when there are none. Of several
/// processes that a launcher started, the first prints it.
void note_ignored_keys(const Config& config);

}  // namespace maxtext
