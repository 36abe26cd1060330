#include "config/key_error.h"

namespace maxtext {
namespace {

std::string_view without_path(std::string_view reason, std::string_view path) {
  if (path.empty() || !reason.starts_with(path)) return reason;
  const std::string_view rest = reason.substr(path.size());
  for (const std::string_view end : {": ", "/"}) {
    if (rest.starts_with(end)) return rest.substr(end.size());
  }
  return path.ends_with('/') ? rest : reason;
}

}  // namespace

std::string key_error(std::string_view key, const std::string& path, std::string_view reason) {
  return fmt::format("{}={}: {}", key, path, without_path(reason, path));
}

}  // namespace maxtext
