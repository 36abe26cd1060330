// A model.safetensors.index.json beside two shards is refused with an Error, or each of its tensors is found.
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

/// A directory with two shards, removed at the end of the process.
class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "safetensors_index_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) __builtin_trap();
    path_ = name;
    write_shard("a.safetensors", "x");
    write_shard("b.safetensors", "y");
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_shard(const char* file, const char* tensor) const {
    const std::array<std::byte, 4> bytes{};
    const std::array<NamedBytes, 1> tensors{{{tensor, {{1}, DType::float32}, bytes}}};
    write_safetensors(path_ / file, tensors);
  }

  std::filesystem::path path_;
};

}  // namespace
}  // namespace maxtext

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const maxtext::Directory directory;
  std::ofstream(directory.path() / "model.safetensors.index.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const maxtext::SafetensorsSet set(directory.path());
    for (const std::string& name : set.names()) set.at(name);
  } catch (const maxtext::Error&) {
    return 0;
  }
  return 0;
}
