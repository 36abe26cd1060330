// Finds the PJRT plugin of a kind of hardware. It is somebody else's library, fetched apart from maxtext.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace maxtext {

/// The folders that plugins of `hardware` (cpu, tpu, gpu) are looked for in, in this order:
///  1. the one that scripts/install-xla fills: <hardware> in MAXTEXT_XLA_DIR, else in $XDG_DATA_HOME/maxtext/xla, else
///  in
///     ~/.local/share/maxtext/xla;
///  2. those of Python packages, of newer versions of Python first: of $VIRTUAL_ENV and $CONDA_PREFIX, the user's,
///     /usr/local's and the system's.
/// No Python is run. Folders that do not exist are left out.
std::vector<std::filesystem::path> plugin_folders(std::string_view hardware);

/// The plugin file for `hardware` (cpu, tpu, gpu): `configured`, or in it where it is a folder (of Python packages, or
/// the plugin's own); when that is empty, the first in plugin_folders. Throws ConfigError where there is none, with the
/// command that installs it, and for other hardware.
std::filesystem::path find_plugin(std::string_view hardware, const std::filesystem::path& configured);

}  // namespace maxtext
