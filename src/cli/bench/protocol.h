// The speed protocol. Machines drift: the same loop can be twice as slow a minute later. So a figure is the ratio of
// two rates measured in alternation: reference, work, reference, work, ..., reference. A pair is a work rate against
// the mean of the references before and after it; it is dropped when those two differ by more than the tolerance. The
// figure is the median of the ratios, with their spread.
#pragma once

#include <functional>
#include <vector>

#include "cli/bench/settings.h"

namespace maxtext::bench {

struct ProtocolOptions {
  /// Pairs to be kept.
  int pairs = 7;
  /// Most that the references of a pair may differ, as a share of the smaller.
  double tolerance = 0.1;
  /// Gives up after this many pairs, dropped ones included, as a multiple of `pairs`.
  int patience = 5;
};

/// The keys `pairs` and `tolerance`, to be added to a benchmark's own.
std::vector<Setting> protocol_settings();
ProtocolOptions protocol_options(const Settings& settings);

struct Measurement {
  double ratio = 0;  ///< median over the kept pairs
  double lowest = 0;
  double highest = 0;
  int pairs = 0;  ///< kept; fewer than wanted on a restless machine
  int dropped = 0;
  double rate = 0;       ///< median of the work's rates in kept pairs
  double reference = 0;  ///< median of the mean references of kept pairs
};

/// Both functions do their work once and return its rate. Throws Error when every pair had to be dropped.
Measurement alternate(const std::function<double()>& reference, const std::function<double()>& work,
                      const ProtocolOptions& options);

/// Seconds of one call of `work`, which is repeated until `shortest` seconds have passed.
double seconds_per_call(const std::function<void()>& work, double shortest = 0.05);

/// The middle value, or the mean of the two in the middle. `values` must not be empty.
double median(std::vector<double> values);

}  // namespace maxtext::bench
