#include <fmt/format.h>

#include "base/error.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/decode_attention_case.h"
#include "cli/bench/report.h"
#include "cli/bench/stream_read.h"
#include "cli/bench/team.h"

namespace maxtext::bench {
namespace {

struct Cases {
  std::vector<DecodeShape> shapes{};
  std::int64_t cache_bytes;     ///< of a case, at least
  std::int64_t in_cache_bytes;  ///< of its small twin
};

Json describe(const DecodeShape& shape) {
  return {{"dtype", std::string(dtype_name(shape.cache_dtype))},
          {"batch", shape.batch},
          {"positions", shape.capacity},
          {"query_heads", shape.query_heads},
          {"kv_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"query_length", shape.query_length}};
}

Cases all_cases(const Settings& settings) {
  Cases cases{.cache_bytes = settings.integer("mebibytes") << 20,
              .in_cache_bytes = settings.integer("in_cache_kibibytes", 0) << 10};
  DecodeShape shape{.query_length = settings.integer("query_length"),
                    .query_heads = settings.integer("query_heads"),
                    .kv_heads = settings.integer("kv_heads"),
                    .head_dim = settings.integer("head_dim"),
                    .batch_invariant = settings.integer("batch_invariant", 0) != 0};
  if (shape.query_heads % shape.kv_heads != 0) {
    fail_config("bench decode_attention: query_heads={} is not a multiple of kv_heads={}", shape.query_heads,
                shape.kv_heads);
  }
  for (const std::string& dtype : settings.words("dtype", {"float32", "bfloat16", "float16", "int8"})) {
    shape.cache_dtype = parse_dtype(dtype);
    for (const std::int64_t batch : settings.integers("batch")) {
      shape.batch = batch;
      shape.capacity = DecodeAttentionCase::positions_for(shape, cases.cache_bytes);
      cases.shapes.push_back(shape);
    }
  }
  return cases;
}

double bytes_per_second(DecodeAttentionCase& attention) {
  return attention.cache_bytes() / seconds_per_call([&] { attention.run(); });
}

void measure(const DecodeShape& shape, const Cases& cases, StreamRead& read, int streams, int threads,
             const ProtocolOptions& options, Report& report) {
  DecodeAttentionCase attention(shape, threads);
  attention.run();
  const auto rate = [&] { return bytes_per_second(attention); };
  const Json details{{"mebibytes", attention.cache_bytes() / (1 << 20)}};
  report.add("decode attention", describe(shape), "best read",
             alternate([&] { return read.measure(streams); }, rate, options), kGigabytes, details);
  if (cases.in_cache_bytes == 0) return;
  DecodeShape twin = shape;
  twin.capacity = DecodeAttentionCase::positions_for(twin, cases.in_cache_bytes);
  DecodeAttentionCase small(twin, threads);
  small.run();
  report.add("decode attention", describe(shape), "its in-cache speed",
             alternate([&] { return bytes_per_second(small); }, rate, options), kGigabytes,
             {{"in_cache_positions", twin.capacity}});
}

}  // namespace

std::vector<Setting> decode_attention_settings() {
  std::vector<Setting> list = protocol_settings();
  list.push_back(threads_setting());
  list.push_back({"dtype", "float32,bfloat16,float16,int8", "of the KV cache"});
  list.push_back({"batch", "1,4", "sequences of equal length"});
  list.push_back({"mebibytes", "256", "K and V together, at least"});
  list.push_back({"in_cache_kibibytes", "8192", "K and V of the same step in cache; 0 leaves that figure out"});
  list.push_back({"query_heads", "32", "query heads"});
  list.push_back({"kv_heads", "8", "key/value heads"});
  list.push_back({"head_dim", "128", "width of a head"});
  list.push_back({"query_length", "1", "new tokens of each sequence"});
  list.push_back({"batch_invariant", "0", "1 cuts keys at fixed positions"});
  list.push_back({"read_mebibytes", "1024", "memory that the read peak reads"});
  return list;
}

Json decode_attention_bench(const Assignments& assignments) {
  const Settings settings("decode_attention", decode_attention_settings(), assignments);
  const ProtocolOptions options = protocol_options(settings);
  const Cases cases = all_cases(settings);
  const std::int64_t read_bytes = settings.integer("read_mebibytes") << 20;
  const int threads = use_team(settings);
  Report report("decode_attention", threads);
  StreamRead read(read_bytes, threads);
  const int streams = best_streams(read, {1, 2, 4, 8});
  report.note("best_streams", streams, fmt::format("read peak: {} stream(s) a thread", streams));
  for (const DecodeShape& shape : cases.shapes) measure(shape, cases, read, streams, threads, options, report);
  return report.json();
}

}  // namespace maxtext::bench
