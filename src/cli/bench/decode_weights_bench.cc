#include <fmt/format.h>

#include <chrono>

#include "base/seconds_since.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/report.h"
#include "cli/bench/stream_read.h"
#include "cli/bench/team.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/thread_transport.h"
#include "tensor/half.h"

namespace maxtext::bench {
namespace {

struct WeightSizes {
  DType dtype;
  std::int64_t bytes, outputs, depth, rows;
};

/// Weights of one size, as many as are wanted of bytes, each multiplied by the same few rows, as decoding does.
class DecodedWeights {
 public:
  DecodedWeights(const WeightSizes& sizes, int threads)
      : engine_({.threads = threads, .fast_few_rows = true}, *communicator_) {
    const std::int64_t row_bytes = sizes.depth * dtype_size(sizes.dtype);
    const std::int64_t all_rows = std::max<std::int64_t>(1, sizes.bytes / row_bytes);
    const std::int64_t outputs = sizes.outputs == 0 ? all_rows : std::min(sizes.outputs, all_rows);
    const TensorSpec spec{{outputs, sizes.depth}, sizes.dtype};
    const std::vector<std::byte> values = stored_values(spec);
    for (std::int64_t i = 0; i < all_rows / outputs; ++i) weights_.push_back(engine_.input(spec, values));
    const TensorSpec x{{sizes.rows, sizes.depth}, DType::float32};
    const std::vector<float> x_values = random_values(x.elements(), 1);
    x_ = engine_.input(x, std::as_bytes(std::span(x_values)));
    bytes_ = static_cast<double>(spec.bytes()) * static_cast<double>(weights_.size());
    measure();
  }

  /// Bytes of weights per second.
  double measure() {
    const auto start = std::chrono::steady_clock::now();
    for (const Tensor& weight : weights_) engine_.apply_one(Linear{}, {x_, weight});
    return bytes_ / seconds_since(start);
  }

  std::size_t count() const { return weights_.size(); }
  std::int64_t outputs() const { return weights_.front().dim(0); }

 private:
  /// One row after the other the same: their values do not matter to the time.
  static std::vector<std::byte> stored_values(const TensorSpec& spec) {
    const std::int64_t depth = spec.shape[1];
    std::vector<std::byte> row(static_cast<std::size_t>(depth * dtype_size(spec.dtype)));
    convert_from_float(random_values(depth, 2), spec.dtype, row);
    std::vector<std::byte> all;
    all.reserve(static_cast<std::size_t>(spec.bytes()));
    for (std::int64_t i = 0; i < spec.shape[0]; ++i) all.insert(all.end(), row.begin(), row.end());
    return all;
  }

  ThreadTransport transport_{Mesh({1, 1, 1, 1})};
  std::unique_ptr<Communicator> communicator_ = transport_.communicator(0);
  CpuEngine engine_;
  std::vector<Tensor> weights_;
  Tensor x_;
  double bytes_ = 0;
};

}  // namespace

std::vector<Setting> decode_weights_settings() {
  std::vector<Setting> list = protocol_settings();
  list.push_back(threads_setting());
  list.push_back({"mebibytes", "256", "weights that are read"});
  list.push_back({"depths", "576,1536,4096", "elements in a row of a weight"});
  list.push_back({"dtypes", "float32,bfloat16", "how weights are stored: float32, bfloat16, float16"});
  list.push_back({"rows", "1", "rows that each weight is multiplied by: sequences decoded together"});
  list.push_back({"outputs", "0", "rows of a weight, one product each; 0: one weight of all bytes"});
  list.push_back({"read_mebibytes", "1024", "memory that is read for the peak"});
  return list;
}

Json decode_weights_bench(const Assignments& assignments) {
  const Settings settings("decode_weights", decode_weights_settings(), assignments);
  const ProtocolOptions options = protocol_options(settings);
  const std::vector<std::int64_t> depths = settings.integers("depths");
  const std::vector<std::string> dtypes = settings.words("dtypes", {"float32", "bfloat16", "float16"});
  const std::int64_t bytes = settings.integer("mebibytes") << 20;
  const std::int64_t rows = settings.integer("rows");
  const std::int64_t outputs = settings.integer("outputs", 0);
  const std::int64_t read_bytes = settings.integer("read_mebibytes") << 20;
  const int threads = use_team(settings);
  Report report("decode_weights", threads);
  StreamRead read(read_bytes, threads);
  const int streams = best_streams(read, {1, 2, 4, 8});
  report.note("best_streams", streams, fmt::format("read peak: {} stream(s) a thread", streams));
  for (const std::string& dtype : dtypes) {
    for (const std::int64_t depth : depths) {
      DecodedWeights weights({parse_dtype(dtype), bytes, outputs, depth, rows}, threads);
      const Json configuration = {{"dtype", dtype},
                                  {"depth", depth},
                                  {"outputs", weights.outputs()},
                                  {"weights", weights.count()},
                                  {"rows", rows}};
      report.add("weights", configuration, "best read",
                 alternate([&] { return read.measure(streams); }, [&] { return weights.measure(); }, options),
                 kGigabytes);
    }
  }
  return report.json();
}

}  // namespace maxtext::bench
