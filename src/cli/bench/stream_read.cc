#include "cli/bench/stream_read.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/seconds_since.h"
#include "cli/bench/protocol.h"

namespace maxtext::bench {
namespace {

constexpr std::int64_t kCacheLine = 64;
constexpr std::int64_t kMostStreams = 8;

/// One cache line; the compiler uses the widest vectors it may.
using Line [[gnu::vector_size(kCacheLine)]] = std::uint64_t;

/// Sums `lines` cache lines, `streams` at a time from places lines / streams apart. Adding integers takes one cycle, so
/// one sum for all streams keeps up with memory and leaves registers for loads.
template <int streams>
std::uint64_t sum_lines(const Line* begin, std::int64_t lines) {
  const std::int64_t distance = lines / streams;
  Line sum{};
  for (std::int64_t i = 0; i < distance; ++i) {
    for (int stream = 0; stream < streams; ++stream) sum += begin[stream * distance + i];
  }
  std::uint64_t total = 0;
  for (int lane = 0; lane < 8; ++lane) total += sum[lane];
  return total;
}

std::uint64_t sum_lines(const Line* begin, std::int64_t lines, int streams) {
  switch (streams) {
    case 1:
      return sum_lines<1>(begin, lines);
    case 2:
      return sum_lines<2>(begin, lines);
    case 4:
      return sum_lines<4>(begin, lines);
    case 8:
      return sum_lines<8>(begin, lines);
    default:
      fail("a read of {} streams is not one of 1, 2, 4, 8", streams);
  }
}

}  // namespace

void StreamRead::Free::operator()(std::byte* pointer) const { std::free(pointer); }

StreamRead::StreamRead(std::int64_t bytes, int threads) : bytes_(bytes), threads_(threads) {
  const std::int64_t granule = threads * kMostStreams * kCacheLine;
  bytes_ = (bytes + granule - 1) / granule * granule;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, static_cast<std::size_t>(bytes_))));
  if (data_ == nullptr) fail("no memory for a read of {} bytes", bytes_);
  const std::int64_t part = bytes_ / threads_;
  // Each thread touches its part first, so it lies in that thread's own memory.
#pragma omp parallel for schedule(static) num_threads(threads_)
  for (int thread = 0; thread < threads_; ++thread) {
    std::memset(data_.get() + thread * part, thread + 1, static_cast<std::size_t>(part));
  }
}

double StreamRead::measure(int streams) {
  const std::int64_t part = bytes_ / threads_;
  std::uint64_t total = 0;
  const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for schedule(static) num_threads(threads_) reduction(+ : total)
  for (int thread = 0; thread < threads_; ++thread) {
    total += sum_lines(reinterpret_cast<const Line*>(data_.get() + thread * part), part / kCacheLine, streams);
  }
  const double seconds = seconds_since(start);
  checksum_ += total;
  return static_cast<double>(bytes_) / seconds;
}

int best_streams(StreamRead& read, const std::vector<std::int64_t>& streams) {
  std::vector<std::vector<double>> rates(streams.size());
  read.measure(1);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) rates[i].push_back(read.measure(static_cast<int>(streams[i])));
  }
  const auto best = std::ranges::max_element(rates, {}, [](const auto& list) { return median(list); });
  return static_cast<int>(streams[static_cast<std::size_t>(best - rates.begin())]);
}

}  // namespace maxtext::bench
