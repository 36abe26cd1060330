#include "checkpoint/slice_values.h"

namespace maxtext {

std::vector<float> read_slice_as_float(const WeightSource& source, const ParameterInfo& parameter,
                                       const ParameterSlice& slice, const ParameterRange& range) {
  std::vector<float> values(static_cast<std::size_t>(range.count));
  for (const ElementRun& run : element_runs(parameter, slice, range.first, range.count)) {
    const auto begin = static_cast<std::size_t>(run.slice_first - range.first);
    source.read_range_as_float(parameter.name, run.whole_first,
                               std::span(values).subspan(begin, static_cast<std::size_t>(run.count)));
  }
  return values;
}

}  // namespace maxtext
