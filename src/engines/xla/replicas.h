// Runs the traced programs of all devices of a mesh as the replicas of one compiled program.
#pragma once

#include <span>

#include "engines/xla/pjrt_client.h"
#include "engines/xla/xla_engine.h"

namespace maxtext {

/// Throws Error with the first line that differs unless all engines have traced the same program, the law that a
/// compiled program rests on: what differs between devices is in the arguments.
void check_same_program(std::span<const XlaEngine* const> engines);

/// Compiles the program of `engines`, one per device of their mesh in its order, runs it once with their arguments and
/// hands each engine its results.
void run_replicas(PjrtClient& client, std::span<XlaEngine* const> engines);

}  // namespace maxtext
