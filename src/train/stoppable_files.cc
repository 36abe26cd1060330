#include "train/stoppable_files.h"

#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

class StoppableFile final : public OutputFile {
 public:
  StoppableFile(std::unique_ptr<OutputFile> file, const StoppableFileLayer& layer)
      : file_(std::move(file)), layer_(layer) {}
  void write(std::span<const std::byte> bytes) override {
    check();
    file_->write(bytes);
  }
  void finish() override {
    check();
    file_->finish();
  }

 private:
  void check() const {
    if (layer_.stopped()) fail("given up, as the run ends");
  }

  std::unique_ptr<OutputFile> file_;
  const StoppableFileLayer& layer_;
};

}  // namespace

std::unique_ptr<OutputFile> StoppableFileLayer::create_file(const std::filesystem::path& path) {
  return std::make_unique<StoppableFile>(files_->create_file(path), *this);
}

}  // namespace maxtext
