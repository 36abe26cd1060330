#include "engines/cpu/vector_loops.h"

namespace maxtext {

template <>
const VectorLoops<float>& vector_loops<float>(InstructionSet set) {
  if (set == InstructionSet::avx512) return avx512::kFloatLoops;
  return set == InstructionSet::avx2 ? avx2::kFloatLoops : baseline::kFloatLoops;
}

template <>
const VectorLoops<double>& vector_loops<double>(InstructionSet set) {
  if (set == InstructionSet::avx512) return avx512::kDoubleLoops;
  return set == InstructionSet::avx2 ? avx2::kDoubleLoops : baseline::kDoubleLoops;
}

template <>
const VectorLoops<float>& vector_loops<float>() {
  return vector_loops<float>(active_instruction_set());
}

template <>
const VectorLoops<double>& vector_loops<double>() {
  return vector_loops<double>(active_instruction_set());
}

}  // namespace maxtext
