#include "base/splitmix64.h"

#include <gtest/gtest.h>

namespace maxtext {
namespace {

/// The five outputs for seed 1234567 that Rosetta Code gives to check implementations by (its task "Pseudo-random
/// numbers/Splitmix64").
TEST(Splitmix64, PublishedSequence) {
  std::uint64_t state = 1234567;
  for (const std::uint64_t expected : {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
                                       4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(splitmix64(state), expected);
    state += kSplitmix64Increment;
  }
}

}  // namespace
}  // namespace maxtext
