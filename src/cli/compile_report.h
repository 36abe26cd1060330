// `maxtext plan compile_topology=…`: the real training step, compiled for devices that are not there.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/step_prediction.h"
#include "config/config.h"
#include "config/xla_options.h"
#include "engines/xla/compile_options.h"

namespace maxtext {

/// compile_xla_flags as the compiler takes them.
XlaFlags xla_flags(const std::vector<XlaFlag>& flags);

/// Traces the step of the mesh's first device, which is that of all, compiles it for choice.topology, and says how long
/// that took, what the step needs of each device by the compiler's account and by the prediction's, whether that is
/// within the device's memory ("fits"), what travels, and whether that is as predicted. Where it does not fit, which
/// the compiler may say instead of an account, "largest" lists what the step holds and the keys that make it less.
/// Throws ConfigError where there is no plugin, Error with the compiler's words.
nlohmann::ordered_json compile_report(const EngineChoice& choice, const RunSetup& setup, const ContextPlan& plan,
                                      const StepPrediction& prediction);

void print_compile_report(const nlohmann::ordered_json& report);

}  // namespace maxtext
