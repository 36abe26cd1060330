#include "cli/bench/protocol.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/seconds_since.h"

namespace maxtext::bench {

std::vector<Setting> protocol_settings() {
  return {{"pairs", "7", "pairs of peak and work that are kept"},
          {"tolerance", "0.1", "pairs whose two peaks differ by more than this share are dropped"}};
}

ProtocolOptions protocol_options(const Settings& settings) {
  return {.pairs = static_cast<int>(settings.integer("pairs")), .tolerance = settings.real("tolerance")};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double seconds_per_call(const std::function<void()>& work, double shortest) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  int calls = 0;
  double seconds = 0;
  do {
    work();
    ++calls;
    seconds = seconds_since(start);
  } while (seconds < shortest);
  return seconds / calls;
}

Measurement alternate(const std::function<double()>& reference, const std::function<double()>& work,
                      const ProtocolOptions& options) {
  std::vector<double> ratios;
  std::vector<double> rates;
  std::vector<double> references;
  Measurement result;
  double before = reference();
  for (int tries = 0; tries < options.pairs * options.patience && result.pairs < options.pairs; ++tries) {
    const double rate = work();
    const double after = reference();
    const auto [smaller, larger] = std::minmax(before, after);
    if (larger <= smaller * (1 + options.tolerance)) {
      const double mean = (before + after) / 2;
      ratios.push_back(rate / mean);
      rates.push_back(rate);
      references.push_back(mean);
      ++result.pairs;
    } else {
      ++result.dropped;
    }
    before = after;
  }
  if (ratios.empty()) {
    fail("no two neighbouring peaks of {} were within {:.0f}%: the machine is too busy to measure", result.dropped + 1,
         100 * options.tolerance);
  }
  result.ratio = median(ratios);
  result.lowest = std::ranges::min(ratios);
  result.highest = std::ranges::max(ratios);
  result.rate = median(rates);
  result.reference = median(references);
  return result;
}

}  // namespace maxtext::bench
