// Elsewhere than on x86-64 there is one set of kernels, on the target's own 128-bit vectors.
#include "base/error.h"
#include "engines/cpu/kernels/attention_tiles.h"
#include "engines/cpu/kernels/decode_tiles.h"
#include "engines/cpu/kernels/weight_rows.h"

namespace maxtext {

namespace isa_baseline {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
const WeightRows* weight_rows_of(DType stored);
extern const DecodeTiles decode_kernels;
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

const WeightRows& weight_rows(InstructionSet, DType stored) {
  const WeightRows* const rows = isa_baseline::weight_rows_of(stored);
  if (rows == nullptr) fail("weights are stored as float32, bfloat16 or float16, not as {}", dtype_name(stored));
  return *rows;
}

const DecodeTiles& decode_tiles(InstructionSet) { return isa_baseline::decode_kernels; }

}  // namespace maxtext
