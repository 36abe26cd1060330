#include "testing/faulty_file_layer.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace maxtext::testing {

namespace fs = std::filesystem;

class FaultyOutputFile final : public OutputFile {
 public:
  FaultyOutputFile(FaultyFileLayer& layer, fs::path path, std::unique_ptr<OutputFile> file)
      : layer_(layer), path_(std::move(path)), file_(std::move(file)) {}

  void write(std::span<const std::byte> bytes) override;
  void finish() override;

 private:
  FaultyFileLayer& layer_;
  fs::path path_;
  std::unique_ptr<OutputFile> file_;
};

template <typename HalfDone>
void FaultyFileLayer::enter(bool takes_space, const fs::path& path, HalfDone half_done) {
  if (crashed_) throw Crashed{};
  ++calls_;
  const bool now = calls_ == at_call_;
  const bool full = fault_ == Fault::disk_full && takes_space && calls_ >= at_call_;
  if (fault_ == Fault::disk_full ? !full : !now) return;
  half_done();
  if (fault_ == Fault::crash_keeps || fault_ == Fault::crash_loses) {
    crashed_ = true;
    if (fault_ == Fault::crash_loses) lose_unsynced();
    throw Crashed{};
  }
  fail("{}: {}", path.string(), takes_space ? "No space left on device" : "Input/output error");
}

void FaultyFileLayer::lose_power() {
  crashed_ = true;
  lose_unsynced();
}

void FaultyFileLayer::lose_unsynced() {
  std::reverse(unsynced_.begin(), unsynced_.end());
  for (const Unsynced& entry : unsynced_) {
    std::error_code gone_already;
    switch (entry.what) {
      case Unsynced::What::contents: {
        const auto size = fs::file_size(entry.path, gone_already);
        if (!gone_already) fs::resize_file(entry.path, size / 2, gone_already);
        break;
      }
      case Unsynced::What::creation:
        fs::remove_all(entry.path, gone_already);
        break;
      case Unsynced::What::renaming:
        fs::rename(entry.path, entry.from, gone_already);
        break;
    }
  }
}

void FaultyOutputFile::write(std::span<const std::byte> bytes) {
  layer_.enter(true, path_, [&] { file_->write(bytes.first(bytes.size() / 2)); });
  file_->write(bytes);
}

void FaultyOutputFile::finish() {
  layer_.enter(true, path_, [] {});
  file_->finish();
  std::erase_if(layer_.unsynced_, [&](const auto& entry) {
    return entry.what == FaultyFileLayer::Unsynced::What::contents && entry.path == path_;
  });
}

void FaultyFileLayer::create_directory(const fs::path& path) {
  enter(true, path, [] {});
  const bool is_new = !fs::exists(path);
  files_.create_directory(path);
  if (is_new) note({Unsynced::What::creation, path, {}});
}

std::unique_ptr<OutputFile> FaultyFileLayer::create_file(const fs::path& path) {
  enter(true, path, [] {});
  auto file = files_.create_file(path);
  note({Unsynced::What::creation, path, {}});
  note({Unsynced::What::contents, path, {}});
  return std::make_unique<FaultyOutputFile>(*this, path, std::move(file));
}

void FaultyFileLayer::rename(const fs::path& from, const fs::path& to) {
  enter(false, to, [] {});
  files_.rename(from, to);
  note({Unsynced::What::renaming, to, from});
}

void FaultyFileLayer::sync_directory(const fs::path& path) {
  enter(false, path, [] {});
  files_.sync_directory(path);
  make_durable(path);
}

void FaultyFileLayer::make_durable(const fs::path& directory) {
  for (std::size_t i = 0; i < unsynced_.size(); ++i) {
    const Unsynced renamed = unsynced_[i];
    if (renamed.what != Unsynced::What::renaming || renamed.path.parent_path() != directory) continue;
    // What happened earlier, below the old name, will have to be undone below the new one.
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      const fs::path below = unsynced_[earlier].path.lexically_relative(renamed.from);
      if (!below.empty() && *below.begin() != "..") unsynced_[earlier].path = renamed.path / below;
    }
  }
  std::erase_if(unsynced_, [&](const Unsynced& entry) {
    return entry.what != Unsynced::What::contents && entry.path.parent_path() == directory;
  });
}

void FaultyFileLayer::remove_tree(const fs::path& path) {
  enter(false, path, [&] {
    // Every other file is gone.
    bool remove = true;
    std::error_code not_there;
    for (const auto& entry : fs::recursive_directory_iterator(path, not_there)) {
      if (!entry.is_regular_file()) continue;
      if (remove) fs::remove(entry.path());
      remove = !remove;
    }
  });
  files_.remove_tree(path);
}

}  // namespace maxtext::testing
