#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/bench/attention_case.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/report.h"
#include "cli/bench/team.h"

namespace maxtext::bench {
namespace {

Json describe(const AttentionSizes& sizes) {
  return {{"seq", sizes.sequence_length}, {"query_heads", sizes.query_heads},
          {"kv_heads", sizes.kv_heads},   {"head_dim", sizes.head_dim},
          {"batch", sizes.batch},         {"window", sizes.window},
          {"documents", sizes.documents}};
}

std::vector<AttentionSizes> all_sizes(const Settings& settings) {
  AttentionSizes sizes;
  sizes.batch = settings.integer("batch");
  sizes.query_heads = settings.integer("query_heads");
  sizes.kv_heads = settings.integer("kv_heads");
  sizes.window = settings.integer("window", 0);
  sizes.documents = settings.integer("documents");
  if (sizes.query_heads % sizes.kv_heads != 0) {
    fail_config("bench attention: query_heads={} is not a multiple of kv_heads={}", sizes.query_heads, sizes.kv_heads);
  }
  std::vector<AttentionSizes> list;
  for (const std::int64_t head_dim : settings.integers("head_dim")) {
    for (const std::int64_t length : settings.integers("seq")) {
      sizes.head_dim = head_dim;
      sizes.sequence_length = length;
      if (sizes.documents > length) {
        fail_config("bench attention: documents={}: a row of {} tokens cannot hold that many", sizes.documents, length);
      }
      list.push_back(sizes);
    }
  }
  return list;
}

}  // namespace

std::vector<Setting> attention_settings() {
  std::vector<Setting> list = {{"seq", "4096,8192", "tokens of a row"},
                               {"head_dim", "64,128", "width of a head"},
                               {"query_heads", "8", "query heads"},
                               {"kv_heads", "2", "key/value heads"},
                               {"batch", "1", "rows"},
                               {"window", "0", "keys that a query sees at most; 0: all earlier ones"},
                               {"documents", "1", "documents of equal length packed into each row"},
                               {"direction", "forward,backward", "what is measured"},
                               threads_setting(),
                               gemm_sizes_setting()};
  for (Setting& setting : protocol_settings()) list.push_back(std::move(setting));
  return list;
}

Json attention_bench(const Assignments& assignments) {
  const Settings settings("attention", attention_settings(), assignments);
  const ProtocolOptions options = protocol_options(settings);
  const std::vector<AttentionSizes> cases = all_sizes(settings);
  const std::vector<std::string> directions = settings.words("direction", {"forward", "backward"});
  const int threads = use_team(settings);
  Report report("attention", threads);
  SquareProduct peak(peak_size(settings));
  report.note("gemm_peak_size", peak.size(), fmt::format("GEMM peak: oneDNN sgemm, {0}x{0}x{0}", peak.size()));
  for (const AttentionSizes& sizes : cases) {
    AttentionCase attention(sizes, attention_plan(sizes), 0, threads);
    attention.forward();
    for (const std::string& direction : directions) {
      const bool forward = direction == "forward";
      const double flops = forward ? attention.forward_flops() : attention.backward_flops();
      const std::function<void()> work = [&] { forward ? attention.forward() : attention.backward(); };
      work();
      const Measurement measured =
          alternate([&] { return peak.measure(); }, [&] { return flops / seconds_per_call(work); }, options);
      report.add(direction, describe(sizes), "GEMM peak", measured, kGigaflops,
                 {{"seconds", flops / measured.rate},
                  {"workspace_mib", static_cast<double>(attention.workspace_bytes()) / (1 << 20)}});
    }
  }
  return report.json();
}

}  // namespace maxtext::bench
