// Run-time choice among the kernels built for x86-64.
#include "engines/cpu/kernels/attention_tiles.h"

namespace maxtext {

namespace isa_baseline {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
}  // namespace isa_baseline
namespace isa_avx2 {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
}  // namespace isa_avx2
namespace isa_avx512 {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
}  // namespace isa_avx512

bool cpu_executes(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return true;
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  }
  return false;
}

template <>
const AttentionTiles<float>& attention_tiles<float>(InstructionSet set) {
  if (set == InstructionSet::avx512) return isa_avx512::float_attention_tiles;
  if (set == InstructionSet::avx2) return isa_avx2::float_attention_tiles;
  return isa_baseline::float_attention_tiles;
}

template <>
const AttentionTiles<double>& attention_tiles<double>(InstructionSet set) {
  if (set == InstructionSet::avx512) return isa_avx512::double_attention_tiles;
  if (set == InstructionSet::avx2) return isa_avx2::double_attention_tiles;
  return isa_baseline::double_attention_tiles;
}

}  // namespace maxtext
