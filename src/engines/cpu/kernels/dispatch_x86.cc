// Run-time choice among the kernels built for x86-64.
#include <cpuid.h>

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
namespace isa_avx2 {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
const WeightRows* weight_rows_of(DType stored);
extern const DecodeTiles decode_kernels;
}  // namespace isa_avx2
namespace isa_avx512 {
extern const AttentionTiles<float> float_attention_tiles;
extern const AttentionTiles<double> double_attention_tiles;
const WeightRows* weight_rows_of(DType stored);
extern const DecodeTiles decode_kernels;
}  // namespace isa_avx512

namespace {

/// __builtin_cpu_supports does not know it in every compiler. Its registers are those of AVX.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

const WeightRows* find_weight_rows(InstructionSet set, DType stored) {
  if (set == InstructionSet::avx512) return isa_avx512::weight_rows_of(stored);
  if (set == InstructionSet::avx2) return isa_avx2::weight_rows_of(stored);
  return isa_baseline::weight_rows_of(stored);
}

}  // namespace

bool cpu_executes(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return true;
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
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

const WeightRows& weight_rows(InstructionSet set, DType stored) {
  const WeightRows* const rows = find_weight_rows(set, stored);
  if (rows == nullptr) fail("weights are stored as float32, bfloat16 or float16, not as {}", dtype_name(stored));
  return *rows;
}

const DecodeTiles& decode_tiles(InstructionSet set) {
  if (set == InstructionSet::avx512) return isa_avx512::decode_kernels;
  if (set == InstructionSet::avx2) return isa_avx2::decode_kernels;
  return isa_baseline::decode_kernels;
}

}  // namespace maxtext
