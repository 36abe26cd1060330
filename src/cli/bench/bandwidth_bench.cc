#include <fmt/format.h>

#include "base/error.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/report.h"
#include "cli/bench/stream_read.h"
#include "cli/bench/team.h"

namespace maxtext::bench {
namespace {

std::vector<std::int64_t> stream_counts(const Settings& settings) {
  std::vector<std::int64_t> streams = settings.integers("streams");
  for (const std::int64_t count : streams) {
    if (count != 1 && count != 2 && count != 4 && count != 8) {
      fail_config("bench bandwidth: streams={}: takes 1, 2, 4 or 8", count);
    }
  }
  return streams;
}

}  // namespace

std::vector<Setting> bandwidth_settings() {
  std::vector<Setting> list = protocol_settings();
  list.push_back(threads_setting());
  list.push_back({"mebibytes", "1024", "memory that is read"});
  list.push_back({"streams", "1,2,4,8", "parts that each thread reads in step; the best is the peak"});
  return list;
}

Json bandwidth_bench(const Assignments& assignments) {
  const Settings settings("bandwidth", bandwidth_settings(), assignments);
  const ProtocolOptions options = protocol_options(settings);
  const std::vector<std::int64_t> streams = stream_counts(settings);
  const std::int64_t mebibytes = settings.integer("mebibytes");
  const int threads = use_team(settings);
  Report report("bandwidth", threads);
  StreamRead read(mebibytes << 20, threads);
  const int best = best_streams(read, streams);
  report.note("best_streams", best, fmt::format("read peak: {} stream(s) a thread", best));
  for (const std::int64_t count : streams) {
    report.add(
        "read", {{"mebibytes", mebibytes}, {"streams", count}}, "best read",
        alternate([&] { return read.measure(best); }, [&] { return read.measure(static_cast<int>(count)); }, options),
        kGigabytes);
  }
  return report.json();
}

}  // namespace maxtext::bench
