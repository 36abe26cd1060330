#include "engines/cpu/vector_loops.h"

namespace maxtext::baseline {
#include "engines/cpu/vector_loops_body.inc"
}  // namespace maxtext::baseline
