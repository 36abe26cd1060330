// The vector instruction sets the attention kernels are compiled for, and which of them this process uses.
#pragma once

#include <string_view>
#include <vector>

namespace maxtext {

/// Ascending in speed. `baseline` is x86-64-v2 (SSE 4.2, no FMA), or the target's own 128-bit vectors elsewhere.
enum class InstructionSet { baseline, avx2, avx512 };

/// "baseline", "avx2", "avx512".
std::string_view instruction_set_name(InstructionSet set);

/// Those that this CPU executes and this program contains, ascending; never empty.
std::vector<InstructionSet> available_instruction_sets();

/// The set named by `name`, or the best available one when `name` is empty. Throws ConfigError for an unknown name and
/// for a set that this CPU cannot execute, naming the available ones.
InstructionSet choose_instruction_set(std::string_view name);

/// choose_instruction_set of the environment variable MAXTEXT_CPU_ISA, read once.
InstructionSet active_instruction_set();

}  // namespace maxtext
