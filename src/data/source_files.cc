#include "data/source_files.h"

#include <fmt/ranges.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/error.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> match_glob(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

std::vector<fs::path> files_below(const fs::path& folder, const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (hidden || !entry->is_regular_file()) continue;
    const bool wanted =
        extensions.empty() || std::count(extensions.begin(), extensions.end(), entry->path().extension().string()) > 0;
    if (wanted) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<fs::path> expand_sources(std::string_view key, const std::vector<std::string>& patterns,
                                     const std::vector<std::string>& folder_extensions) {
  if (patterns.empty()) fail_config("{}: expected files, folders or globs, got nothing", key);
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  for (const std::string& pattern : patterns) {
    // A path that exists is taken literally, whatever characters it holds.
    auto matches = fs::exists(pattern) ? std::vector<fs::path>{pattern} : match_glob(pattern);
    if (matches.empty()) fail_config("{}: no such file, folder or match: {}", key, pattern);
    for (const fs::path& match : matches) {
      const bool folder = fs::is_directory(match);
      const auto found = folder ? files_below(match, folder_extensions) : std::vector<fs::path>{match};
      if (found.empty()) {
        fail_config("{}: no files to read in folder {}{}", key, match.string(),
                    folder_extensions.empty()
                        ? ""
                        : fmt::format("; those that end in {} are", fmt::join(folder_extensions, ", ")));
      }
      for (const fs::path& file : found) {
        if (!fs::exists(file)) fail_config("{}: {} leads nowhere", key, file.string());
        // Its size has to be known, and it is read more than once: no pipe.
        if (!fs::is_regular_file(file)) fail_config("{}: {} is not a regular file", key, file.string());
        if (seen.insert(fs::absolute(file).lexically_normal()).second) files.push_back(file);
      }
    }
  }
  return files;
}

std::string describe_source(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail("{}: cannot be examined: {}", path.string(), std::strerror(errno));
  return fmt::format("{} {} {}{:09}", fs::absolute(path).lexically_normal().string(), status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace maxtext
