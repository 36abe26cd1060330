// Microseconds of the small ops of a decoding step, one row of a model of hidden size 576, through Engine::apply.
//   op_overhead_bench [threads] [pause]
// `pause` microseconds of other work lie between two ops, so that a team that sleeps early is seen. An optional target.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "engines/cpu/cpu_engine.h"
#include "mesh/thread_transport.h"

namespace {

using maxtext::DType;
using maxtext::Tensor;

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void pause_for(double microseconds) {
  for (const double end = now() + microseconds; now() < end;) {
  }
}

/// The median of 31 batches of 200 calls, the pauses not counted.
double microseconds(double pause, const std::function<void()>& work) {
  std::vector<double> batches;
  for (int batch = 0; batch < 31; ++batch) {
    double spent = 0;
    for (int call = 0; call < 200; ++call) {
      if (pause > 0) pause_for(pause);
      const double start = now();
      work();
      spent += now() - start;
    }
    batches.push_back(spent / 200);
  }
  std::sort(batches.begin(), batches.end());
  return batches[15];
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const double pause = argc > 2 ? std::atof(argv[2]) : 0;
  maxtext::ThreadTransport transport(maxtext::Mesh({1, 1, 1, 1}));
  const auto communicator = transport.communicator(0);
  maxtext::CpuEngine engine({.threads = threads, .fast_few_rows = true}, *communicator);
  const auto tensor = [&](maxtext::Shape shape, DType dtype = DType::float32) {
    const maxtext::TensorSpec spec{std::move(shape), dtype};
    return engine.input(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
  };
  const auto print = [&](const char* name, const std::function<void()>& work) {
    std::printf("%-28s %8.2f us\n", name, microseconds(pause, work));
  };
  const Tensor hidden = tensor({1, 1, 576}), scale = tensor({576}), stored_scale = tensor({576}, DType::bfloat16);
  const Tensor gate = tensor({1, 1, 1536}), heads = tensor({1, 1, 9, 64}), angles = tensor({1, 1, 32});
  const Tensor ids = tensor({1, 1}, DType::int32), table = tensor({49152, 576}, DType::bfloat16);
  const Tensor small = tensor({64, 64}, DType::bfloat16), square = tensor({576, 576}, DType::bfloat16);
  const Tensor rows = tensor({1, 64}), wide = tensor({1536, 576}, DType::bfloat16);
  omp_set_num_threads(threads);
  print("clock", [] {});
  print("empty parallel region", [] {
#pragma omp parallel
    { [[maybe_unused]] volatile int thread = omp_get_thread_num(); }
  });
  print("allocate", [&] { engine.allocate({{1, 1, 576}, DType::float32}); });
  print("view", [&] { engine.apply_one(maxtext::Reshape{{1, 1, 9, 64}}, {hidden}); });
  print("add", [&] { engine.apply_one(maxtext::Add{}, {hidden, hidden}); });
  print("add in place", [&] { engine.apply_one(maxtext::Add{.in_place = true}, {hidden, hidden}); });
  print("rms_norm", [&] { engine.apply_one(maxtext::RmsNorm{}, {hidden, scale}); });
  print("rms_norm, bfloat16 scale", [&] { engine.apply_one(maxtext::RmsNorm{}, {hidden, stored_scale}); });
  print("rope", [&] { engine.apply_one(maxtext::Rope{}, {heads, angles, angles}); });
  print("gated activation of 1536", [&] { engine.apply_one(maxtext::GatedActivation{}, {gate, gate}); });
  print("embedding", [&] { engine.apply_one(maxtext::Embedding{}, {table, ids}); });
  print("linear 64x64", [&] { engine.apply_one(maxtext::Linear{}, {rows, small}); });
  print("linear 576x576", [&] { engine.apply_one(maxtext::Linear{}, {hidden, square}); });
  print("linear 576x1536", [&] { engine.apply_one(maxtext::Linear{}, {hidden, wide}); });
  return 0;
}
