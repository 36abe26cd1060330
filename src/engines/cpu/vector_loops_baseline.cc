#include "engines/cpu/vector_loops.h"

#include "engines/cpu/tanh_coefficients.h"

namespace maxtext::baseline {
#include "engines/cpu/vector_loops_body.inc"
}  // namespace maxtext::baseline
