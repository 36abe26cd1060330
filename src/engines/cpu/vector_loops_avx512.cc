#include "engines/cpu/vector_loops.h"

#include "engines/cpu/tanh_coefficients.h"

namespace maxtext::avx512 {
#include "engines/cpu/vector_loops_body.inc"
}  // namespace maxtext::avx512
