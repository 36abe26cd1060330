// Elsewhere than on x86-64 there is one set of kernels, on the target's own 128-bit vectors.
#include "engines/cpu/kernels/attention_tiles.h"

namespace maxtext {

namespace isa_baseline {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
}  // namespace isa_baseline

bool cpu_executes(InstructionSet set) { return set == InstructionSet::baseline; }

template <>
const AttentionTiles<float>& attention_tiles<float>(InstructionSet) {
  return isa_baseline::float_attention_tiles;
}

template <>
const AttentionTiles<double>& attention_tiles<double>(InstructionSet) {
  return isa_baseline::double_attention_tiles;
}

}  // namespace maxtext
