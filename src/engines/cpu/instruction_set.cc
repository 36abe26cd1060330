#include "engines/cpu/instruction_set.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "engines/cpu/kernels/attention_tiles.h"

namespace maxtext {
namespace {

constexpr InstructionSet all_sets[] = {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512};

std::string available_names() {
  std::string names;
  for (const InstructionSet set : available_instruction_sets()) {
    names += names.empty() ? "" : ", ";
    names += instruction_set_name(set);
  }
  return names;
}

}  // namespace

std::string_view instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set : all_sets) {
    if (cpu_executes(set)) sets.push_back(set);
  }
  return sets;
}

InstructionSet choose_instruction_set(std::string_view name) {
  const std::vector<InstructionSet> available = available_instruction_sets();
  if (name.empty()) return available.back();
  for (const InstructionSet set : all_sets) {
    if (name != instruction_set_name(set)) continue;
    if (std::find(available.begin(), available.end(), set) != available.end()) return set;
    fail_config("MAXTEXT_CPU_ISA={}: this CPU cannot execute it; available: {}", name, available_names());
  }
  fail_config("MAXTEXT_CPU_ISA={}: unknown instruction set; available: {}", name, available_names());
}

InstructionSet active_instruction_set() {
  static const InstructionSet chosen = [] {
    const char* const name = std::getenv("MAXTEXT_CPU_ISA");
    return choose_instruction_set(name == nullptr ? "" : name);
  }();
  return chosen;
}

}  // namespace maxtext
