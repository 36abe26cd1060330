#include <fmt/format.h>

#include <functional>

#include "base/error.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/report.h"
#include "cli/bench/team.h"
#include "engines/cpu/gemm.h"
#include "mesh/thread_transport.h"

namespace maxtext::bench {
namespace {

/// The three products of a linear layer, as the cpu engine computes them.
class LinearProducts {
 public:
  LinearProducts(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs)
      : tokens_(tokens),
        inputs_(inputs),
        outputs_(outputs),
        x_(random_values(tokens * inputs, 1)),
        w_(random_values(outputs * inputs, 2)),
        y_(random_values(tokens * outputs, 3)),
        dx_(x_.size()),
        dw_(w_.size()) {}

  double flops() const { return 2 * static_cast<double>(tokens_) * static_cast<double>(inputs_ * outputs_); }
  void forward() { multiply_transposed(context_, tokens_, outputs_, inputs_, x_.data(), w_.data(), y_.data()); }
  /// With weights as they are stored, 16 bits each.
  void stored_forward(DType dtype) {
    stored_w_.resize(w_.size() * static_cast<std::size_t>(dtype_size(dtype)));
    multiply_transposed(context_, tokens_, outputs_, inputs_, x_.data(), stored_w_.data(), dtype, y_.data());
  }
  void input_gradient() { multiply(context_, tokens_, inputs_, outputs_, y_.data(), w_.data(), false, dx_.data()); }
  void weight_gradient() {
    transposed_multiply(context_, outputs_, inputs_, tokens_, y_.data(), x_.data(), true, dw_.data());
  }

 private:
  std::int64_t tokens_, inputs_, outputs_;
  std::vector<float> x_, w_, y_, dx_, dw_;
  std::vector<std::byte> stored_w_;
  ThreadTransport transport_{Mesh({1, 1, 1, 1})};
  std::unique_ptr<Communicator> communicator_ = transport_.communicator(0);
  MemoryPool pool_;
  Workspace workspace_;
  CpuContext context_{pool_, *communicator_, workspace_};
};

struct LayerSizes {
  std::int64_t inputs, outputs;
};

/// "512x1408,1408x512".
std::vector<LayerSizes> layer_sizes(const Settings& settings) {
  std::vector<LayerSizes> list;
  std::string text = settings.text("layers");
  while (!text.empty()) {
    const std::string part = text.substr(0, text.find(','));
    text.erase(0, part.size() + 1);
    LayerSizes sizes{};
    int end = 0;
    if (std::sscanf(part.c_str(), "%ldx%ld%n", &sizes.inputs, &sizes.outputs, &end) != 2 ||
        end != static_cast<int>(part.size()) || sizes.inputs < 1 || sizes.outputs < 1) {
      fail_config("bench gemm: layers={}: '{}' is not INPUTSxOUTPUTS, as 512x1408", settings.text("layers"), part);
    }
    list.push_back(sizes);
  }
  return list;
}

}  // namespace

std::vector<Setting> gemm_settings() {
  std::vector<Setting> list = protocol_settings();
  list.push_back(threads_setting());
  list.push_back(gemm_sizes_setting());
  list.push_back({"tokens", "2048", "rows of the products of linear layers"});
  list.push_back({"layers", "512x512,512x128,512x1408,1408x512,512x8192",
                  "linear layers, inputs x outputs, whose three products are measured; empty: none"});
  list.push_back({"weights", "float32", "how weights are stored; with bfloat16 or float16, forward only is measured"});
  return list;
}

Json gemm_bench(const Assignments& assignments) {
  const Settings settings("gemm", gemm_settings(), assignments);
  const ProtocolOptions options = protocol_options(settings);
  const std::vector<LayerSizes> layers = layer_sizes(settings);
  const std::vector<std::int64_t> sizes = settings.integers("gemm_sizes");
  const std::int64_t tokens = settings.integer("tokens");
  const std::vector<std::string> dtypes = settings.words("weights", {"float32", "bfloat16", "float16"});
  Report report("gemm", use_team(settings));
  SquareProduct peak(peak_size(settings));
  const auto peak_rate = [&] { return peak.measure(); };
  report.note("gemm_peak_size", peak.size(), fmt::format("GEMM peak: oneDNN sgemm, {0}x{0}x{0}", peak.size()));
  for (const std::int64_t size : sizes) {
    SquareProduct product(size);
    product.measure();
    report.add("square product", {{"size", size}}, "GEMM peak",
               alternate(
                   peak_rate, [&] { return product.measure(); }, options),
               kGigaflops);
  }
  for (const LayerSizes& layer : layers) {
    LinearProducts products(tokens, layer.inputs, layer.outputs);
    Json configuration = {{"tokens", tokens}, {"inputs", layer.inputs}, {"outputs", layer.outputs}};
    const auto measure = [&](const char* what, const std::function<void()>& work) {
      work();
      const auto rate = [&] { return products.flops() / seconds_per_call(work); };
      report.add(what, configuration, "GEMM peak", alternate(peak_rate, rate, options), kGigaflops);
    };
    for (const std::string& dtype : dtypes) {
      configuration["weights"] = dtype;
      if (dtype != "float32") {
        measure("linear, forward", [&] { products.stored_forward(parse_dtype(dtype)); });
        continue;
      }
      measure("linear, forward", [&] { products.forward(); });
      measure("linear, gradient of inputs", [&] { products.input_gradient(); });
      measure("linear, gradient of weights", [&] { products.weight_gradient(); });
    }
  }
  return report.json();
}

}  // namespace maxtext::bench
