// What a device has of a parameter, read from a source of whole weights.
#pragma once

#include <vector>

#include "checkpoint/weight_source.h"
#include "model/parameters.h"

namespace maxtext {

/// Elements [range.first, range.first + range.count) of the parameter's slice, converted to float. Throws as
/// WeightSource::read_range_as_float.
std::vector<float> read_slice_as_float(const WeightSource& source, const ParameterInfo& parameter,
                                       const ParameterSlice& slice, const ParameterRange& range);

}  // namespace maxtext
