// Which files a list of paths, folders and globs means.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

/// The files that `patterns` name, in the order of the patterns and sorted within each; a file named twice comes once.
/// A folder stands for all files below it but hidden ones and those whose extension is not in `folder_extensions`
/// (empty: all). Throws ConfigError, naming `key`, for a pattern that matches nothing and for an empty list.
std::vector<std::filesystem::path> expand_sources(std::string_view key, const std::vector<std::string>& patterns,
                                                  const std::vector<std::string>& folder_extensions = {});

/// "path size mtime-in-ns": changes when the file may have changed.
std::string describe_source(const std::filesystem::path& path);

}  // namespace maxtext
