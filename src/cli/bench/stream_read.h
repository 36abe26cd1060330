// How fast memory can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace maxtext::bench {

/// A buffer that the OpenMP team of the calling thread reads from end to end, each thread its own part.
class StreamRead {
 public:
  /// Throws Error when the memory is not there. `bytes` should be far above the last cache: 1 GiB or more.
  StreamRead(std::int64_t bytes, int threads);

  /// Bytes per second of one pass in which each thread reads `streams` (1, 2, 4 or 8) equally long parts of its own
  /// in step: hardware prefetchers follow several streams at a time.
  double measure(int streams);

  std::int64_t bytes() const { return bytes_; }
  /// Keeps the reads from being optimised away.
  std::uint64_t checksum() const { return checksum_; }

 private:
  struct Free {
    void operator()(std::byte* pointer) const;
  };
  std::int64_t bytes_;
  int threads_;
  std::unique_ptr<std::byte, Free> data_;
  std::uint64_t checksum_ = 0;
};

/// The number of streams with the best median of three passes, taken in turn.
int best_streams(StreamRead& read, const std::vector<std::int64_t>& streams);

}  // namespace maxtext::bench
