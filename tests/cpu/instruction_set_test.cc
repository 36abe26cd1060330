#include "engines/cpu/instruction_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace maxtext {
namespace {

TEST(InstructionSet, TheBestIsTheDefaultAndEachCanBeNamed) {
  const std::vector<InstructionSet> available = available_instruction_sets();
  ASSERT_FALSE(available.empty());
  EXPECT_EQ(available.front(), InstructionSet::baseline);
  EXPECT_TRUE(std::is_sorted(available.begin(), available.end()));
  EXPECT_EQ(choose_instruction_set(""), available.back());
  for (const InstructionSet set : available) EXPECT_EQ(choose_instruction_set(instruction_set_name(set)), set);
}

TEST(InstructionSet, AWrongNameIsAConfigErrorThatListsTheAvailable) {
  try {
    choose_instruction_set("avx3");
    FAIL();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("MAXTEXT_CPU_ISA=avx3"), std::string::npos) << message;
    EXPECT_NE(message.find("baseline"), std::string::npos) << message;
  }
}

TEST(InstructionSet, OneThatTheCpuLacksIsAConfigError) {
  const std::vector<InstructionSet> available = available_instruction_sets();
  for (const InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    if (std::find(available.begin(), available.end(), set) != available.end()) continue;
    EXPECT_THROW(choose_instruction_set(instruction_set_name(set)), ConfigError);
  }
}

}  // namespace
}  // namespace maxtext
