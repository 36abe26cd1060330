#include "engines/cpu/workspace.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::int64_t huge_page = std::int64_t{2} << 20;

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Workspace::Lease::Lease(Lease&& other) noexcept
    : workspace_(std::exchange(other.workspace_, nullptr)),
      index_(other.index_),
      data_(other.data_),
      bytes_(other.bytes_) {}

Workspace::Lease::~Lease() {
  if (workspace_ != nullptr) workspace_->buffers_[index_].in_use = false;
}

std::int64_t Workspace::held_bytes(std::int64_t bytes) {
  if (bytes <= 0) return 0;
  return round_up(bytes, bytes >= huge_page ? huge_page : 64);
}

void Workspace::Free::operator()(std::byte* pointer) const { std::free(pointer); }

void Workspace::allocate(Buffer& buffer, std::int64_t bytes) {
  buffer.data.reset();
  buffer.bytes = 0;
  const std::int64_t alignment = bytes >= huge_page ? huge_page : 64;
  const std::int64_t size = held_bytes(bytes);
  void* const memory = std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(size));
  if (memory == nullptr) fail("workspace: no memory for {} bytes, {} bytes held", size, this->bytes());
  // A hint: packed operands span many 4 KiB pages. Where it is refused, nothing changes but speed.
  if (alignment == huge_page) madvise(memory, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  buffer.data.reset(static_cast<std::byte*>(memory));
  buffer.bytes = size;
  ++allocations_;
}

Workspace::Lease Workspace::take(std::int64_t bytes) {
  bytes = bytes < 64 ? 64 : bytes;
  Buffer* fitting = nullptr;
  Buffer* largest = nullptr;
  for (Buffer& buffer : buffers_) {
    if (buffer.in_use) continue;
    if (buffer.bytes >= bytes && (fitting == nullptr || buffer.bytes < fitting->bytes)) fitting = &buffer;
    if (largest == nullptr || buffer.bytes > largest->bytes) largest = &buffer;
  }
  if (fitting == nullptr) {
    fitting = largest != nullptr ? largest : &buffers_.emplace_back();
    allocate(*fitting, bytes);
  }
  fitting->in_use = true;
  return Lease(this, static_cast<std::size_t>(fitting - buffers_.data()), fitting->data.get(), fitting->bytes);
}

std::int64_t Workspace::bytes() const {
  std::int64_t total = 0;
  for (const Buffer& buffer : buffers_) total += buffer.bytes;
  return total;
}

std::int64_t Workspace::bytes_in_use() const {
  std::int64_t total = 0;
  for (const Buffer& buffer : buffers_) total += buffer.in_use ? buffer.bytes : 0;
  return total;
}

void Workspace::release() {
  for (Buffer& buffer : buffers_) {
    if (buffer.in_use) continue;
    buffer.data.reset();
    buffer.bytes = 0;
  }
}

}  // namespace maxtext
