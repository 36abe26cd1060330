// What to do about a step that does not fit.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/step_prediction.h"

namespace maxtext {

/// What the predicted step holds at its peak, the largest first: [{"kind", "bytes", "keys": [what lowers it]}]. Keys
/// that cannot lower it any more are left out.
nlohmann::ordered_json largest_items(const RunSetup& setup, const StepPrediction& prediction);

void print_largest_items(const nlohmann::ordered_json& items);

}  // namespace maxtext
