// Scratch memory of one device's engine, pooled: allocating and page-faulting 50-200 MB in every attention call costs
// 10-17 points of the GEMM peak, more than any choice of tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace maxtext {

/// A pool of 64-byte aligned buffers. It holds as many buffers as were ever in use at once; a buffer too small for a
/// request is replaced by a larger one, so the pool grows to what a run needs and then allocates no more. Contents are
/// not initialised. Not thread-safe: one device thread takes and returns, its team may write.
class Workspace {
 public:
  /// A buffer in use, returned to the pool by its destructor. Must not outlive the Workspace.
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();

    std::byte* data() const { return data_; }
    std::int64_t bytes() const { return bytes_; }

   private:
    friend class Workspace;
    Lease(Workspace* workspace, std::size_t index, std::byte* data, std::int64_t bytes)
        : workspace_(workspace), index_(index), data_(data), bytes_(bytes) {}

    Workspace* workspace_;
    std::size_t index_;
    std::byte* data_;
    std::int64_t bytes_;
  };

  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// At least `bytes` bytes. Throws Error when the system has no memory left.
  Lease take(std::int64_t bytes);

  /// The size of the buffer that is made for a request of `bytes`, 0 for none.
  static std::int64_t held_bytes(std::int64_t bytes);

  /// Bytes held by the pool, in use or not.
  std::int64_t bytes() const;
  /// Bytes of the buffers in use.
  std::int64_t bytes_in_use() const;
  /// How often memory was asked from the system; constant once a run is warm.
  std::int64_t allocations() const { return allocations_; }
  /// Gives buffers that are not in use back to the system.
  void release();

 private:
  struct Free {
    void operator()(std::byte* pointer) const;
  };
  struct Buffer {
    std::unique_ptr<std::byte, Free> data;
    std::int64_t bytes = 0;
    bool in_use = false;
  };
  void allocate(Buffer& buffer, std::int64_t bytes);

  std::vector<Buffer> buffers_;
  std::int64_t allocations_ = 0;
};

/// Cuts one block into aligned arrays. Used twice with the same sequence of `array` calls: without memory to learn the
/// size, then with it.
class Carver {
 public:
  explicit Carver(std::byte* base = nullptr) : base_(base) {}

  template <typename T>
  T* array(std::int64_t count) {
    std::byte* const place = base_ == nullptr ? nullptr : base_ + offset_;
    offset_ += (count * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(place);
  }
  std::int64_t bytes() const { return offset_; }
  /// The size as one thread's share of several: whole pages and some lines, so that no two threads' arrays share lines,
  /// or cache sets by rule.
  std::int64_t bytes_per_thread() const { return (offset_ + 4095) / 4096 * 4096 + 1088; }

 private:
  std::byte* base_;
  std::int64_t offset_ = 0;
};

}  // namespace maxtext
