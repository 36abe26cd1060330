#include "train/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <utility>

namespace maxtext {
namespace {

/// Runs `body` in a child process and returns the signal that ended it, or 0 if it exited by itself.
template <typename Body>
int signal_that_ends(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(StopSignal, FirstSignalIsNoted) {
  signal(SIGHUP, SIG_DFL);  // the tests may run under nohup, which StopSignal respects
  for (const auto& [number, name] :
       {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGHUP, "SIGHUP"}}) {
    const StopSignal stop;
    EXPECT_FALSE(stop.requested());
    EXPECT_STREQ(stop.name(), "");
    raise(number);
    EXPECT_TRUE(stop.requested());
    EXPECT_EQ(stop.number(), number);
    EXPECT_STREQ(stop.name(), name);
  }
}

TEST(StopSignal, SecondSignalOfEitherKindKills) {
  EXPECT_EQ(signal_that_ends([] {
              const StopSignal stop;
              raise(SIGINT);
            }),
            0);
  EXPECT_EQ(signal_that_ends([] {
              const StopSignal stop;
              raise(SIGINT);
              raise(SIGTERM);
            }),
            SIGTERM);
  EXPECT_EQ(signal_that_ends([] {
              const StopSignal stop;
              raise(SIGTERM);
              raise(SIGTERM);
            }),
            SIGTERM);
}

TEST(StopSignal, WhatLaunchersSendTwiceDoesNotKill) {
  for (const int number : {SIGUSR1, SIGHUP}) {
    EXPECT_EQ(signal_that_ends([number] {
                const StopSignal stop;
                raise(number);
                raise(number);
              }),
              0);
  }
}

TEST(StopSignal, NohupStaysInForce) {
  signal(SIGHUP, SIG_IGN);
  {
    const StopSignal stop;
    raise(SIGHUP);
    EXPECT_FALSE(stop.requested());
  }
  signal(SIGHUP, SIG_DFL);
}

std::atomic<int> seen_by_old_handler{0};
extern "C" void old_handler(int number) { seen_by_old_handler = number; }

TEST(StopSignal, RestoresTheHandlersThatWereThere) {
  struct sigaction before {};
  struct sigaction mine {};
  mine.sa_handler = old_handler;
  sigaction(SIGTERM, &mine, &before);
  {
    const StopSignal stop;
    raise(SIGTERM);
    EXPECT_EQ(seen_by_old_handler, 0);
  }
  raise(SIGTERM);
  EXPECT_EQ(seen_by_old_handler, SIGTERM);
  sigaction(SIGTERM, &before, nullptr);
}

TEST(StopSignal, OnlyOneMayExist) {
  const StopSignal stop;
  EXPECT_THROW(StopSignal{}, std::logic_error);
}

}  // namespace
}  // namespace maxtext
