// The speed of the attention kernels as a share of the GEMM peak of the same moment: peak and work alternate, pairs
// whose two peaks differ by more than 10 % are dropped, the median is printed with the spread.
//   attention_kernel_bench [forward|backward|both] [head_dim,…] [length,…] [pairs] [instruction set,…] [window]
//                         [softcap]
// An optional target; `maxtext bench attention` is the one for users.
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "engines/cpu/attention_kernel.h"

namespace {

using maxtext::AttentionExecution;
using maxtext::AttentionShape;
using maxtext::InstructionSet;

template <typename Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

/// FLOP/s of oneDNN's sgemm, 2048³.
class Peak {
 public:
  double measure() {
    const double time = seconds([&] {
      dnnl_sgemm('N', 'N', size_, size_, size_, 1.0F, a_.data(), size_, b_.data(), size_, 0.0F, c_.data(), size_);
    });
    const double n = static_cast<double>(size_);
    return 2 * n * n * n / time;
  }

 private:
  static constexpr std::int64_t size_ = 2048;
  std::vector<float> a_ = random_values(size_ * size_, 1);
  std::vector<float> b_ = random_values(size_ * size_, 2);
  std::vector<float> c_ = std::vector<float>(static_cast<std::size_t>(size_ * size_));
};

/// Causal, one row, 8 query heads on 2 KV heads, the last `window` keys only unless it is 0.
class Attention {
 public:
  Attention(std::int64_t length, std::int64_t head_dim, InstructionSet set, std::int32_t window, double softcap)
      : shape_{1, length, 8, head_dim, 1, length, 2, 2, 0, 0.125, softcap}, execution_{0, set} {
    q_ = random_values(length * 8 * head_dim, 3);
    d_o_ = random_values(length * 8 * head_dim, 4);
    k_ = random_values(length * 2 * head_dim, 5);
    v_ = random_values(length * 2 * head_dim, 6);
    o_ = dq_ = std::vector<float>(q_.size());
    dk_ = dv_ = std::vector<float>(k_.size());
    logsumexp_.resize(static_cast<std::size_t>(8 * length));
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(length); ++i) {
      slots_.push_back(i);
      begin_.push_back(window > 0 ? std::max(0, i + 1 - window) : 0);
      end_.push_back(i + 1);
      pairs_ += end_.back() - begin_.back();
    }
  }
  double forward_flops() const { return 4 * pairs_ * 8 * static_cast<double>(shape_.head_dim); }
  void forward() {
    attention_forward(shape_, q_.data(), k_.data(), v_.data(), slots_.data(), begin_.data(), end_.data(), o_.data(),
                      logsumexp_.data(), workspace_, execution_);
  }
  void backward() {
    attention_backward(shape_, q_.data(), k_.data(), v_.data(), slots_.data(), begin_.data(), end_.data(), o_.data(),
                       logsumexp_.data(), d_o_.data(), dq_.data(), dk_.data(), dv_.data(), workspace_, execution_);
  }
  double workspace_mib() const { return static_cast<double>(workspace_.bytes()) / (1 << 20); }

 private:
  AttentionShape shape_;
  AttentionExecution execution_;
  double pairs_ = 0;  ///< visible (query, key) pairs of a head
  maxtext::Workspace workspace_;
  std::vector<float> q_, d_o_, k_, v_, o_, dq_, dk_, dv_, logsumexp_;
  std::vector<std::int32_t> slots_, begin_, end_;
};

template <typename Work>
void report(const std::string& name, int pairs, double flops, Peak& peak, Work&& work) {
  work();
  std::vector<double> ratios;
  double highest = 0;
  double before = peak.measure();
  for (int tries = 0; static_cast<int>(ratios.size()) < pairs && tries < 3 * pairs; ++tries) {
    const double rate = flops / seconds(work);
    const double after = peak.measure();
    if (std::max(before, after) <= 1.1 * std::min(before, after)) ratios.push_back(2 * rate / (before + after));
    highest = std::max(highest, after);
    before = after;
  }
  if (ratios.empty()) {
    std::printf("%s: no two neighbouring peaks within 10%%\n", name.c_str());
    return;
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("%s: %5.1f%% [%.1f..%.1f] of GEMM, %zu pairs, peak %.0f GFLOP/s\n", name.c_str(),
              100 * ratios[ratios.size() / 2], 100 * ratios.front(), 100 * ratios.back(), ratios.size(), highest / 1e9);
  std::fflush(stdout);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int i, const char* otherwise) { return std::string(i < count ? arguments[i] : otherwise); };
  const std::string which = argument(1, "both");
  Peak peak;
  peak.measure();
  for (const std::string& isa :
       split(argument(5, maxtext::instruction_set_name(maxtext::active_instruction_set()).data()))) {
    for (const std::string& head_dim : split(argument(2, "64,128"))) {
      for (const std::string& length : split(argument(3, "4096,8192"))) {
        Attention attention(std::atoll(length.c_str()), std::atoll(head_dim.c_str()),
                            maxtext::choose_instruction_set(isa), std::atoi(argument(6, "0").c_str()),
                            std::atof(argument(7, "0").c_str()));
        const int pairs = std::atoi(argument(4, "7").c_str());
        const std::string name = isa + " D " + head_dim + " S " + length;
        if (which != "backward") {
          report("forward  " + name, pairs, attention.forward_flops(), peak, [&] { attention.forward(); });
        }
        attention.forward();
        if (which != "forward") {
          report("backward " + name, pairs, 2.5 * attention.forward_flops(), peak, [&] { attention.backward(); });
        }
        std::printf("         workspace %.0f MiB\n", attention.workspace_mib());
      }
    }
  }
  return 0;
}
